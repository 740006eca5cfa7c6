"""The table of keys that Kafka does not have. They begin with `tallystick.`."""

from coordinator.cluster.keys.config_types import ConfigKey, ConfigType, at_least, between, one_of
from coordinator.cluster.keys.key_tables import BOOLEAN, INT, LIST, LONG, PASSWORD, STRING, dynamic, fixed

OWN_KEYS = (
    fixed(
        "tallystick.durability",
        STRING,
        "fsync",
        "What an acknowledgement means: `fsync`, the record is on the disk; `page-cache`, the operating system has it, "
        "as Kafka does.",
        one_of("fsync", "page-cache"),
    ),
    fixed(
        "tallystick.store",
        PASSWORD,
        "",
        "Where logs lie instead of the data folder: `postgresql://user@host/database`, as libpq reads it.",
    ),
    fixed(
        "tallystick.store.objects",
        STRING,
        "",
        "Where such a store keeps the records of clients' topics, `s3://bucket/folder`; empty: in the database, with "
        "everything else. Address, region and credentials are those of the environment (`AWS_ENDPOINT_URL`, "
        "`AWS_REGION`, `AWS_ACCESS_KEY_ID`, ...). It needs the extra `s3`.",
    ),
    fixed(
        "tallystick.store.objects.linger.ms",
        INT,
        "50",
        "How long records wait there for others that go into the same object, unless 4 MiB are waiting: a longer wait "
        "makes fewer and larger objects, and each is paid for. Coordinators do not wait.",
        between(0, 1000),
    ),
    fixed(
        "tallystick.store.memory.bytes",
        LONG,
        "268435456",
        "How much of the logs of such a store is held in memory for readers: of what was written last, and again of "
        "what was brought for them. 64 pieces of what was brought stay whatever it is, each of 1 MiB or one batch that "
        "is larger, and up to 64 MiB beyond it that nobody has read yet.",
        at_least(1),
    ),
    fixed(
        "tallystick.store.read.ahead.bytes",
        LONG,
        "16777216",
        "How much may be read ahead of readers that are far behind, beside that; 0: nothing is. It goes when nobody "
        "has gone on reading there for 10 s, and when writers are sent back.",
        at_least(0),
    ),
    fixed(
        "tallystick.store.pending.bytes",
        LONG,
        "67108864",
        "How much may wait to be committed to such a store; beyond that writers are answered NOT_ENOUGH_REPLICAS.",
        at_least(1 << 20),
    ),
    fixed("tallystick.in.memory", BOOLEAN, "false", "Keep everything in memory: nothing is left after the process."),
    fixed(
        "tallystick.nodes",
        INT,
        "1",
        "How many nodes this process is, for tests of clients: with ids from `node.id` on, on neighbouring ports, and "
        "with everything in memory.",
        between(1, 16),
    ),
    fixed(
        "tallystick.repair",
        LIST,
        "",
        "Logs (topic-partition) that this start checks whole and cuts at the first damage; what is cut off is kept. "
        "`tallystick.ahead`: it goes on without the write-ahead log, which is set aside.",
    ),
    fixed(
        "tallystick.strict.replication.factor",
        BOOLEAN,
        "false",
        "Refuse replication factors other than 1 instead of storing them as 1.",
    ),
    dynamic(
        "tallystick.producer.ids.max",
        INT,
        "1000000",
        "How many producers all partitions together remember. Beyond that, those that were silent for longest are "
        "forgotten before `producer.id.expiration.ms` is over; never one with an open transaction.",
        at_least(1),
    ),
    fixed(
        "tallystick.journal.bytes",
        LONG,
        "16777216",
        "How much memory the journal may take up: what happened to transactional ids, and how clients behave, for "
        "`tallystick explain`, `transactions timeline` and `lint`. 0 switches it off; there is none either where "
        "nobody can ask it: without `tallystick.http` and traces, but for brokers under a test's control.",
        at_least(0),
    ),
    fixed(
        "tallystick.traces.endpoint",
        STRING,
        "",
        "The collector that is sent a trace of each transaction, in OTLP over HTTP: `http://127.0.0.1:4318`. Where it "
        "is empty, `OTEL_EXPORTER_OTLP_ENDPOINT` is looked at.",
    ),
    dynamic(
        "tallystick.groups.max.bytes",
        LONG,
        "536870912",
        "How much memory all groups together may take up: ids, metadata and assignments of members, ids that were "
        "handed out, offsets. Beyond that new groups, members and offsets are COORDINATOR_NOT_AVAILABLE until others "
        "have gone.",
        at_least(1 << 20),
    ),
    dynamic(
        "tallystick.record.checks",
        STRING,
        "bounded",
        "What of a batch is checked before it is written: `header`, what its header tells; `bounded`, also that it can "
        "be decompressed, and that its records are there where they are few; `all`, that they are there, always.",
        one_of("header", "bounded", "all"),
    ),
    dynamic(
        "tallystick.decompression.max.bytes",
        INT,
        "67108864",
        "What the records of one batch may come to where they have to be decompressed.",
        at_least(1 << 20),
    ),
    dynamic(
        "tallystick.decompression.max.ratio",
        INT,
        "1000",
        "How many times their compressed size they may come to; 4 MB are allowed whatever the ratio.",
        at_least(1),
    ),
    fixed(
        "tallystick.request.memory.bytes",
        LONG,
        "268435456",
        "How many bytes requests may take together before those who hold most are left unread, and how many answers "
        "that are not taken before the slowest reader is disconnected.",
        at_least(1 << 20),
    ),
    fixed(
        "tallystick.fetch.session.partitions.max",
        INT,
        "200000",
        "How many partitions all fetch sessions together remember; a client beyond that asks in full each time.",
        at_least(0),
    ),
    dynamic(
        "tallystick.scrub.io.max.bytes.per.second",
        LONG,
        "1048576",
        "How much of old segments is read in a second, on average, to compare checksums; 0: nothing is.",
        at_least(0),
    ),
    dynamic(
        "tallystick.scrub.interval.ms",
        LONG,
        "3600000",
        "How long that rests after it has read everything.",
        at_least(1),
    ),
    fixed(
        "tallystick.write.ahead.bytes",
        INT,
        "33554432",
        "The size of the write-ahead log, by which one sync makes small appends to many logs durable; 0: each log is "
        "synced by itself. It is made when it is of use.",
        at_least(0),
    ),
    ConfigKey(
        "tallystick.add.scram",
        ConfigType.PASSWORD,
        None,
        "Users of SCRAM that a cluster without any begins with, as `kafka-storage format --add-scram` takes them; "
        "several stand behind each other.",
    ),
    fixed(
        "tallystick.client.telemetry",
        BOOLEAN,
        "false",
        "Receive metrics of clients (KIP-714), as subscriptions of the type CLIENT_METRICS ask for them. It needs the "
        "extra `telemetry`.",
    ),
    fixed(
        "tallystick.authentication.timeout.ms",
        INT,
        "30000",
        "How long a connection of a SASL listener may take until it is authenticated; it is closed then.",
        at_least(1),
    ),
    fixed(
        "tallystick.stall.threshold.ms",
        INT,
        "20",
        "Turns of the event loop that take at least this long are counted, and logged with what ran; 0: none are.",
        at_least(0),
    ),
    fixed(
        "tallystick.console",
        STRING,
        "",
        "Where a page about this cluster is served, as HOST:PORT; without a host on 127.0.0.1. Empty: nowhere. It "
        "needs the extra `console`.",
    ),
    fixed(
        "tallystick.console.config",
        STRING,
        "",
        "A file with the settings of a client that the console speaks to this broker with, such as a trust store.",
    ),
    fixed(
        "tallystick.connection.answer.bytes",
        INT,
        "262144",
        "How many bytes of answers a client may leave untaken before its next request waits.",
        at_least(1024),
    ),
    fixed(
        "tallystick.tls.handshake.timeout.ms",
        INT,
        "10000",
        "How long a client may take from its connection to the end of the TLS handshake.",
        at_least(1),
    ),
    fixed(
        "tallystick.tls.handshakes.max",
        INT,
        "1000",
        "How many TLS handshakes may be under way; beyond that the oldest is given up.",
        at_least(1),
    ),
    fixed(
        "tallystick.advertised.listeners.file",
        STRING,
        "",
        "A file with what `advertised.listeners` is to be, in one line, for addresses that are known only later. The "
        "start waits until it is there.",
    ),
    fixed(
        "tallystick.http",
        STRING,
        "",
        "Where health and metrics are told over HTTP, as HOST:PORT; without a host on 127.0.0.1. Empty: nowhere. It "
        "needs the extra `http`.",
    ),
    fixed(
        "tallystick.http.token.file",
        STRING,
        "",
        "A file with a token that HTTP requests have to carry, all but those of /health.",
    ),
    fixed(
        "tallystick.http.trusted.network",
        BOOLEAN,
        "false",
        "Tell whoever asks, on an address that other machines reach, without a token.",
    ),
    fixed(
        "tallystick.http.control",
        BOOLEAN,
        "false",
        "For tests: let HTTP clients arm fault points, move the clock, freeze and end the broker. It is slower then.",
    ),
    dynamic(
        "tallystick.tls.file.check.interval.ms",
        INT,
        "5000",
        "How often the files of keys and certificates are looked at; a changed one is loaded.",
        at_least(1),
    ),
)
