"""The table of keys about SASL. They can be said of one listener, and of one mechanism of it (`listener_keys`)."""

from coordinator.cluster.keys.config_types import ConfigKey, ConfigType, ConfigValue, Scope, at_least
from coordinator.cluster.keys.key_tables import INT, LIST, LONG, STRING, fixed
from protocol.sasl.jaas import BadJaas, read_jaas


def one_login_module(value: ConfigValue) -> str | None:
    """A JAAS line that can be read."""
    try:
        read_jaas(str(value))
    except BadJaas as problem:
        return f"{problem}"
    return None


SASL = (
    fixed(
        "sasl.enabled.mechanisms",
        LIST,
        "GSSAPI",
        "What clients of a SASL listener may authenticate with: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. "
        "GSSAPI, Kafka's default, is not served.",
    ),
    ConfigKey(
        "sasl.jaas.config",
        ConfigType.PASSWORD,
        None,
        "The login module of a mechanism, as listener.name.LISTENER.MECHANISM.sasl.jaas.config; that of PLAIN holds "
        "its users. `username` and `password` are those that this node says to others.",
        one_login_module,
        Scope.PER_BROKER,
    ),
    fixed(
        "sasl.mechanism.inter.broker.protocol",
        STRING,
        "GSSAPI",
        "By what this node says to others who it is: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512. GSSAPI, Kafka's default, is "
        "not spoken.",
    ),
    fixed(
        "sasl.server.max.receive.size",
        INT,
        "524288",
        "The largest request of a connection that is not authenticated yet.",
        at_least(1),
    ),
    fixed(
        "sasl.server.callback.handler.class",
        ConfigType.CLASS,
        None,
        "For OAUTHBEARER: Kafka's OAuthBearerValidatorCallbackHandler (the default here, signed tokens), or its "
        "OAuthBearerUnsecuredValidatorCallbackHandler (whatever a client says is believed).",
    ),
    fixed(
        "connections.max.reauth.ms",
        LONG,
        "0",
        "How long a client is known before it has to authenticate again (KIP-368); 0: for good.",
        at_least(0),
    ),
    fixed(
        "connection.failed.authentication.delay.ms",
        INT,
        "100",
        "How long the answer to a failed authentication is kept back.",
        at_least(0),
    ),
    fixed(
        "sasl.oauthbearer.jwks.endpoint.url",
        STRING,
        None,
        "Where the keys that sign tokens are: an https: or a file: address of a JSON Web Key Set.",
    ),
    fixed(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        "3600000",
        "How old they may become before they are fetched anew.",
        at_least(1),
    ),
    fixed("sasl.oauthbearer.expected.audience", LIST, None, "A token has to be for one of these."),
    fixed("sasl.oauthbearer.expected.issuer", STRING, None, "Who has to have issued a token."),
    fixed("sasl.oauthbearer.clock.skew.seconds", INT, "30", "How far the issuer's clock may be off.", at_least(0)),
    fixed("sasl.oauthbearer.scope.claim.name", STRING, "scope", "The claim with the scopes of a token."),
    fixed("sasl.oauthbearer.sub.claim.name", STRING, "sub", "The claim that names who a token is of."),
)
