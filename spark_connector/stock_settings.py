"""Settings of Java's clients that have no counterpart here, by name and with the reason.

What is without effect is accepted, so that switching from Spark's own connector is a matter of the format's name: the
query does the same without it. What is refused would be missed: the query would do something else than it says.
"""

from collections.abc import Mapping

_FIXED = "fixed, half a second at most"
_SETUP = "fixed, ten seconds"
_MEASURED = "there are no metrics of Java here"
_KERBEROS = "of GSSAPI, which is not spoken here"
_NO_GROUP = "there is no group"
_REFRESHED = "a token is got anew when four fifths of its life are over"
_ASKED_AGAIN = "the token endpoint is asked again when it is tried again to connect"
_BROKERS = "tokens are read by the broker alone"
_OPENSSLS = "TLS is OpenSSL's"
_NO_CLASSES = "classes of Java are not run here"
_NO_ASSERTIONS = "assertions (RFC 7523) are not made here: use client credentials or a file with a token"

OF_CONNECTIONS = {
    "kafka.auto.include.jmx.reporter": _MEASURED,
    "kafka.client.dns.lookup": "every address of a name is tried",
    "kafka.connections.max.idle.ms": "a connection that was closed is opened again when it is needed",
    "kafka.enable.metrics.push": "nothing is told to the broker",
    "kafka.metadata.max.age.ms": "metadata is asked for anew with each micro-batch, and after errors",
    "kafka.metadata.recovery.rebootstrap.trigger.ms": "the bootstrap servers are asked as soon as no broker answers",
    "kafka.metadata.recovery.strategy": "the bootstrap servers are asked as soon as no broker answers",
    "kafka.metric.reporters": _MEASURED,
    "kafka.metrics.num.samples": _MEASURED,
    "kafka.metrics.recording.level": _MEASURED,
    "kafka.metrics.sample.window.ms": _MEASURED,
    "kafka.receive.buffer.bytes": "the operating system's",
    "kafka.reconnect.backoff.ms": _FIXED,
    "kafka.reconnect.backoff.max.ms": _FIXED,
    "kafka.request.timeout.ms": "fixed; then it is asked again",
    "kafka.retry.backoff.ms": _FIXED,
    "kafka.retry.backoff.max.ms": _FIXED,
    "kafka.sasl.kerberos.kinit.cmd": _KERBEROS,
    "kafka.sasl.kerberos.min.time.before.relogin": _KERBEROS,
    "kafka.sasl.kerberos.service.name": _KERBEROS,
    "kafka.sasl.kerberos.ticket.renew.jitter": _KERBEROS,
    "kafka.sasl.kerberos.ticket.renew.window.factor": _KERBEROS,
    "kafka.sasl.login.connect.timeout.ms": "kafka.sasl.login.read.timeout.ms says it",
    "kafka.sasl.login.refresh.buffer.seconds": _REFRESHED,
    "kafka.sasl.login.refresh.min.period.seconds": _REFRESHED,
    "kafka.sasl.login.refresh.window.factor": _REFRESHED,
    "kafka.sasl.login.refresh.window.jitter": _REFRESHED,
    "kafka.sasl.login.retry.backoff.max.ms": _ASKED_AGAIN,
    "kafka.sasl.login.retry.backoff.ms": _ASKED_AGAIN,
    "kafka.sasl.oauthbearer.clock.skew.seconds": _BROKERS,
    "kafka.sasl.oauthbearer.expected.audience": _BROKERS,
    "kafka.sasl.oauthbearer.expected.issuer": _BROKERS,
    "kafka.sasl.oauthbearer.jwks.endpoint.refresh.ms": _BROKERS,
    "kafka.sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": _BROKERS,
    "kafka.sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": _BROKERS,
    "kafka.sasl.oauthbearer.jwks.endpoint.url": _BROKERS,
    "kafka.sasl.oauthbearer.jwt.validator.class": _BROKERS,
    "kafka.sasl.oauthbearer.scope.claim.name": _BROKERS,
    "kafka.sasl.oauthbearer.sub.claim.name": _BROKERS,
    "kafka.send.buffer.bytes": "the operating system's",
    "kafka.socket.connection.setup.timeout.max.ms": _SETUP,
    "kafka.socket.connection.setup.timeout.ms": _SETUP,
    "kafka.ssl.keymanager.algorithm": _OPENSSLS,
    "kafka.ssl.protocol": "kafka.ssl.enabled.protocols says it",
    "kafka.ssl.provider": _OPENSSLS,
    "kafka.ssl.secure.random.implementation": _OPENSSLS,
    "kafka.ssl.trustmanager.algorithm": _OPENSSLS,
}
"""Without effect, in both formats."""

OF_THE_SINK = OF_CONNECTIONS | {
    "kafka.compression.gzip.level": "each codec has one level here",
    "kafka.compression.lz4.level": "each codec has one level here",
    "kafka.compression.zstd.level": "each codec has one level here",
    "kafka.key.serializer": "keys are written as they are",
    "kafka.linger.ms": "a batch is sent when its rows are there",
    "kafka.max.block.ms": "kafka.delivery.timeout.ms says it",
    "kafka.max.in.flight.requests.per.connection": "one batch of a partition is under way at a time",
    "kafka.max.request.size": "kafka.batch.size says it; a larger row is a batch of its own",
    "kafka.metadata.max.idle.ms": "what is known of a topic is forgotten after errors",
    "kafka.partitioner.adaptive.partitioning.enable": "rows without a key take turns",
    "kafka.partitioner.availability.timeout.ms": "rows without a key take turns",
    "kafka.retries": "kafka.delivery.timeout.ms says it",
    "kafka.value.serializer": "values are written as they are",
}

OF_THE_SOURCE = OF_CONNECTIONS | {
    "fetchoffset.numretries": "kafkaConsumer.pollTimeoutMs says it",
    "fetchoffset.retryintervalms": _FIXED,
    "groupidprefix": _NO_GROUP,
    "kafka.allow.auto.create.topics": "no topic is made by being read",
    "kafka.auto.commit.interval.ms": _NO_GROUP,
    "kafka.client.rack": "the leader is read, never a follower",
    "kafka.default.api.timeout.ms": "kafkaConsumer.pollTimeoutMs says it",
    "kafka.exclude.internal.topics": "subscribePattern never means internal topics",
    "kafka.fetch.max.bytes": "each task reads one partition: kafka.max.partition.fetch.bytes says it",
    "kafka.fetch.min.bytes": "what is asked for is there already",
    "kafka.group.id": _NO_GROUP,
    "kafka.group.instance.id": _NO_GROUP,
    "kafka.group.protocol": _NO_GROUP,
    "kafka.group.remote.assignor": _NO_GROUP,
    "kafka.heartbeat.interval.ms": _NO_GROUP,
    "kafka.max.poll.interval.ms": _NO_GROUP,
    "kafka.max.poll.records": "rows come as Arrow batches, not from a poll",
    "kafka.partition.assignment.strategy": _NO_GROUP,
    "kafka.retries": "kafkaConsumer.pollTimeoutMs says it",
    "kafka.session.timeout.ms": _NO_GROUP,
    "kafka.share.acknowledgement.mode": _NO_GROUP,
    "kafka.share.acquire.mode": _NO_GROUP,
}

REFUSED_BY_BOTH = {
    "kafka.bootstrap.controllers": "brokers are asked, never controllers: use kafka.bootstrap.servers",
    "kafka.config.providers": "values are taken as they are written: give the secret itself, or a file with it",
    "kafka.interceptor.classes": _NO_CLASSES,
    "kafka.sasl.client.callback.handler.class": _NO_CLASSES,
    "kafka.sasl.login.class": _NO_CLASSES,
    "kafka.sasl.oauthbearer.assertion.algorithm": _NO_ASSERTIONS,
    "kafka.sasl.oauthbearer.assertion.claim.aud": _NO_ASSERTIONS,
    "kafka.sasl.oauthbearer.assertion.claim.exp.seconds": _NO_ASSERTIONS,
    "kafka.sasl.oauthbearer.assertion.claim.iss": _NO_ASSERTIONS,
    "kafka.sasl.oauthbearer.assertion.claim.jti.include": _NO_ASSERTIONS,
    "kafka.sasl.oauthbearer.assertion.claim.nbf.seconds": _NO_ASSERTIONS,
    "kafka.sasl.oauthbearer.assertion.claim.sub": _NO_ASSERTIONS,
    "kafka.sasl.oauthbearer.assertion.file": _NO_ASSERTIONS,
    "kafka.sasl.oauthbearer.assertion.private.key.file": _NO_ASSERTIONS,
    "kafka.sasl.oauthbearer.assertion.private.key.passphrase": _NO_ASSERTIONS,
    "kafka.sasl.oauthbearer.assertion.template.file": _NO_ASSERTIONS,
    "kafka.security.providers": _NO_CLASSES,
    "kafka.ssl.engine.factory.class": _NO_CLASSES,
}

REFUSED_BY_THE_SINK = REFUSED_BY_BOTH | {
    "asyncprogresstrackingenabled": "async progress tracking commits batches that Spark may forget, which breaks "
    "exactly-once: leave asyncProgressTrackingEnabled out",
    "kafka.partitioner.class": "keys go where Java's own producers put them; a column partition says otherwise",
    "kafka.partitioner.ignore.keys": "keys go where Java's own producers put them; a column partition says otherwise",
    "kafka.transaction.two.phase.commit.enable": "one transaction per micro-batch is decided by the sink alone",
    "kafka.transactional.id": "the transactional id of this sink is its sinkId: use option sinkId",
}

REFUSED_BY_THE_SOURCE = REFUSED_BY_BOTH | {
    "kafka.auto.offset.reset": "use startingOffsets, and failOnDataLoss for what is gone",
    "kafka.enable.auto.commit": "Spark keeps the offsets in its checkpoint",
    "kafka.key.deserializer": "keys come as bytes: use keyFormat, or decode the column",
    "kafka.value.deserializer": "values come as bytes: use valueFormat, or decode the column",
}


def refusal(name: str, value: str, refused: Mapping[str, str]) -> str | None:
    """Why a setting is not taken, by its name in lower case. Nothing is refused that is switched off."""
    return refused.get(name) if value.lower() != "false" else None
