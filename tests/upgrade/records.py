"""Records as clients write them, of every kind that a log may hold; and what readers are to find of them.

What is found is written down here, not in a file beside the folder: it follows from what was written.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.harness.confluent import SECONDS, admin, consumer, make_topic, producer, read_all, wait_until
from tests.upgrade.place import PASSWORD, USER, ZERO_MS

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
OF_EACH = 40
HEADERS = [("kind", b"order"), ("empty", b""), ("none", None), ("kind", b"again")]
COMPACTED, KEYS, ROUNDS = "compacted", 5, 30
LEDGER, TRANSFERS = "ledger", 6
"""Of these, each third is aborted."""
POSITION = 17
"""What `reader` has committed of the topic of the first codec."""


def write_records(bootstrap: str) -> None:
    for number, codec in enumerate(CODECS):
        make_topic(bootstrap, f"codec-{codec}", 1, compression__type="producer")
        _send(
            bootstrap,
            f"codec-{codec}",
            _records_of(codec),
            compression__type=codec,
            enable__idempotence=number % 2 == 0,
        )
    reader = consumer(bootstrap, group__id="reader")
    reader.commit(offsets=[TopicPartition(f"codec-{CODECS[0]}", 0, POSITION, metadata="noted")], asynchronous=False)
    reader.close()
    _compact(bootstrap)
    _transfer(bootstrap)
    _let_in(bootstrap)


def _records_of(codec: str) -> list[dict[str, Any]]:
    return [
        {
            "key": f"{n % 7}".encode(),
            "value": f"{codec} {n} ".encode() * 9,
            "headers": HEADERS,
            "timestamp": ZERO_MS + n,
        }
        for n in range(OF_EACH)
    ]


def _send(bootstrap: str, topic: str, records: Iterable[Mapping[str, Any]], **settings: Any) -> None:
    sender = producer(bootstrap, **settings)
    for record in records:
        sender.produce(topic, partition=0, **record)
    assert sender.flush(SECONDS) == 0


def _compact(bootstrap: str) -> None:
    """Rounds of values, then one key ends in a tombstone. Segments are small; the cleaner has been there once."""
    always = {"cleanup__policy": "compact", "min__cleanable__dirty__ratio": "0.01", "segment__bytes": str(1 << 20)}
    make_topic(bootstrap, COMPACTED, 1, **always, delete__retention__ms=str(2**62), max__compaction__lag__ms="1")
    padding = b"." * 9_000
    for number in range(ROUNDS):
        _send(bootstrap, COMPACTED, [{"key": b"%d" % key, "value": b"%d" % number + padding} for key in range(KEYS)])
    _send(bootstrap, COMPACTED, [{"key": b"0", "value": None}])
    wait_until(lambda: len(read_all(bootstrap, COMPACTED)) < KEYS * ROUNDS, "a compacted segment")


def _transfer(bootstrap: str) -> None:
    make_topic(bootstrap, LEDGER, 2)
    for number in range(TRANSFERS):
        sender = producer(bootstrap, transactional__id=f"transfer-{number % 2}")
        sender.init_transactions(SECONDS)
        sender.begin_transaction()
        for partition, amount in enumerate((b"-%d", b"+%d")):
            sender.produce(LEDGER, amount % number, partition=partition)
        sender.flush(SECONDS)
        (sender.abort_transaction if number % 3 == 2 else sender.commit_transaction)(SECONDS)


def _let_in(bootstrap: str) -> None:
    """A user, and what this user may do."""
    asker = admin(bootstrap)
    secret = UserScramCredentialUpsertion(
        USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
    )
    for done in asker.alter_user_scram_credentials([secret]).values():
        done.result(SECONDS)
    allowed = [
        (ResourceType.TOPIC, "codec-", ResourcePatternType.PREFIXED),
        (ResourceType.GROUP, "reader", ResourcePatternType.LITERAL),
    ]
    acls = [
        AclBinding(*resource, f"User:{USER}", "*", AclOperation.READ, AclPermissionType.ALLOW) for resource in allowed
    ]
    for made in asker.create_acls(acls).values():
        made.result(SECONDS)
    asker.list_topics(timeout=SECONDS)


def check_records(bootstrap: str, guarded: str) -> None:
    """Read all of it, as a client does."""
    for codec in CODECS:
        found = [
            {"key": one.key(), "value": one.value(), "headers": one.headers(), "timestamp": one.timestamp()[1]}
            for one in read_all(bootstrap, f"codec-{codec}")
        ]
        assert found == _records_of(codec), codec
    at = consumer(bootstrap, group__id="reader").committed([TopicPartition(f"codec-{CODECS[0]}", 0)], SECONDS)[0]
    assert (at.offset, at.metadata) == (POSITION, "noted")
    latest = {one.key(): one.value() for one in read_all(bootstrap, COMPACTED)}
    assert {key: value and value.rstrip(b".") for key, value in latest.items()} == {
        b"0": None, **{b"%d" % key: b"%d" % (ROUNDS - 1) for key in range(1, KEYS)},
    }  # fmt: skip
    assert len(read_all(bootstrap, COMPACTED)) < KEYS * ROUNDS
    amounts = [int(one.value()) for one in read_all(bootstrap, LEDGER)]
    assert sorted(amounts) == sorted(sign * n for n in range(TRANSFERS) if n % 3 != 2 for sign in (-1, 1))
    assert len(read_all(bootstrap, LEDGER, read_committed=False)) == 2 * TRANSFERS
    _check_user(guarded)


def _check_user(guarded: str) -> None:
    """The password is still the one, and opens what it opened."""
    login = {
        "security__protocol": "SASL_PLAINTEXT", "sasl__mechanism": "SCRAM-SHA-512",
        "sasl__username": USER, "sasl__password": PASSWORD,
    }  # fmt: skip
    known = admin(guarded, **login).list_topics(timeout=SECONDS).topics
    assert sorted(known) == sorted(f"codec-{codec}" for codec in CODECS)
    assert len(read_all(guarded, f"codec-{CODECS[0]}", group__id="reader", **login)) == OF_EACH
