"""A member of a group copies a topic in transactions that commit its offsets, too, with the epoch of the member.

    python -m tests.clients.copying bootstrap group transactional-id source sink protocol [instance]

Runs until its standard input has something to say; whatever goes wrong ends it, and it is started again.
`tests/java/GroupCopier.java` does the same with Java's client.
"""

import os
import select
import sys

from confluent_kafka import KafkaException, Message, TopicPartition

from tests.harness.confluent import SECONDS, consumer, producer

AT_ONCE = 10
NO_OTHER_WAY = {"metadata__recovery__strategy": "none"}
"""librdkafka that goes back to its bootstrap addresses never sends offsets to a transaction again (its issue 5511)."""
CLASSIC = {
    "partition__assignment__strategy": "range",
    "session__timeout__ms": 3000,
    "heartbeat__interval__ms": 200,
}


def main(bootstrap: str, group: str, transactional_id: str, source: str, sink: str, protocol: str, *rest: str) -> None:
    """See the head of this file."""
    settings: dict[str, object] = {"group__protocol": protocol, "isolation__level": "read_committed"} | NO_OTHER_WAY
    settings |= CLASSIC if protocol == "classic" else {}
    settings |= {"group__instance__id": rest[0]} if rest else {}
    reader = consumer(bootstrap, group__id=group, **settings)
    writer = producer(bootstrap, transactional__id=transactional_id, transaction__timeout__ms=5000, **NO_OTHER_WAY)
    writer.init_transactions(SECONDS)
    reader.subscribe([source])
    while not select.select([sys.stdin], [], [], 0)[0]:
        messages = [message for message in reader.consume(AT_ONCE, 0.1) if is_record(message)]
        if not messages:
            continue
        writer.begin_transaction()
        ends: dict[tuple[str, int], Message] = {}
        for message in messages:
            writer.produce(sink, message.value(), key=message.key())
            ends[message.topic(), message.partition()] = message
        offsets = [TopicPartition(*place, last.offset() + 1) for place, last in ends.items()]
        writer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), SECONDS)
        writer.commit_transaction(SECONDS)
    reader.close()


def is_record(message: Message) -> bool:
    """Or an error that passes by itself. That a static member that died is still in the group is fatal."""
    error = message.error()
    if error is not None and error.fatal():
        raise KafkaException(error)
    return error is None


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KafkaException as error:
        # Clients that fail wait for each other on their way out.
        print(error, file=sys.stderr, flush=True)
        os._exit(1)
