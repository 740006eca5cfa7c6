"""The scene of a story: what is there before it is told, and what must be in the log when it has been."""

from collections.abc import Sequence

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    QuotaAlterationEntry,
    QuotaOperation,
)
from protocol.records.batch import headers_in
from tallystick.client.blocking import BlockingClient
from tallystick.client.reading import joined, read_all
from tests.conformance.matrix.story import Story
from tests.harness.confluent import SECONDS, admin, producer

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
"""By their number in a batch."""


def set_stage(bootstrap: str, stories: Sequence[Story]) -> None:
    topics = [
        NewTopic(topic, partitions, 1, config=story.settings)
        for story in stories
        for topic, partitions in story.topics.items()
    ]
    asker = admin(bootstrap)
    for made in asker.create_topics(topics).values() if topics else ():
        made.result(SECONDS)
    plain = producer(bootstrap)
    for story in stories:
        for number in range(story.filled):
            plain.produce(story.topic, str(number), partition=number % story.topics[story.topic])
        if story.transactions:
            _write_transactions(bootstrap, story)
        for client_id, rate in story.throttled.items():
            _throttle(bootstrap, client_id, rate)
    assert plain.flush(SECONDS) == 0


def _write_transactions(bootstrap: str, story: Story) -> None:
    sender: Producer = producer(bootstrap, transactional__id=story.topic)
    sender.init_transactions(SECONDS)
    for values in story.transactions:
        sender.begin_transaction()
        aborts = values[0] == "!"
        for value in values[aborts:]:
            sender.produce(story.topic, value, partition=0)
        assert sender.flush(SECONDS) == 0
        (sender.abort_transaction if aborts else sender.commit_transaction)(SECONDS)


def _throttle(bootstrap: str, client_id: str, rate: int) -> None:
    entity = [AlteredQuotaEntity(entity_type="client-id", entity_name=client_id)]
    ops = [QuotaOperation(key="producer_byte_rate", value=float(rate))]
    request = AlterClientQuotasRequest(entries=[QuotaAlterationEntry(entity=entity, ops=ops)], validate_only=False)
    with BlockingClient(bootstrap) as client:
        assert [one.error_code for one in client.ask(request).entries] == [0]


def wrong_in_the_log(bootstrap: str, story: Story) -> str:
    """What is not as the story says; "" where all is well."""
    with BlockingClient(bootstrap) as client:
        if story.codec:
            fetched = client.run(client.client.fetch(story.topic, 0, 0))
            found = {CODECS[header.compression] for _, header in headers_in(joined(fetched))}
            # What does not get smaller may be left as it is.
            if story.codec not in found:
                return f"in the log: {', '.join(sorted(found))}"
        if story.streamed:
            values = [record.value for record in client.run(read_all(client.client, story.topic, 0))]
            if values != [b"%0100d" % number for number in range(story.streamed)]:
                return f"in the log: {len(values)} values, {len(set(values))} different"
    return ""
