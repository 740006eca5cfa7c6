"""The table of `ssl.` keys. All of them can be said of one listener (`listener_keys`).

Certificates and keys change while the broker runs, under the name of a listener only, as in Kafka
(`ONLY_OF_A_LISTENER`).
"""

from dataclasses import replace

from coordinator.cluster.keys.config_types import each_of, one_of, one_of_in_any_case
from coordinator.cluster.keys.key_tables import BOOLEAN, CLASS, LIST, PASSWORD, STRING, fixed, per_broker

STORE_KINDS = ("JKS", "PKCS12", "PEM")

STORES = (
    per_broker(
        "ssl.keystore.type",
        STRING,
        "JKS",
        "PEM, or one of JKS and PKCS12; which of the two a file is is seen from it.",
        one_of(*STORE_KINDS),
    ),
    per_broker("ssl.keystore.location", STRING, None, "The file of the broker's key and certificates."),
    per_broker("ssl.keystore.password", PASSWORD, None, "Opens a JKS or PKCS12."),
    per_broker("ssl.key.password", PASSWORD, None, "Opens the key within, where it has a password of its own."),
    per_broker("ssl.keystore.key", PASSWORD, None, "The key itself (PEM), where there is no file."),
    per_broker("ssl.keystore.certificate.chain", PASSWORD, None, "Its certificates (PEM), the broker's first."),
    per_broker(
        "ssl.truststore.type",
        STRING,
        "JKS",
        "PEM, or one of JKS and PKCS12; which of the two a file is is seen from it.",
        one_of(*STORE_KINDS),
    ),
    per_broker(
        "ssl.truststore.location", STRING, None, "What clients and other nodes are trusted by: a file of certificates."
    ),
    per_broker("ssl.truststore.password", PASSWORD, None, "Opens it; without one its integrity is not checked."),
    per_broker("ssl.truststore.certificates", PASSWORD, None, "The certificates themselves (PEM), without a file."),
)

ONLY_OF_A_LISTENER = frozenset(key.name for key in STORES)

RULES = (
    per_broker(
        "ssl.client.auth",
        STRING,
        "none",
        "Whether clients show a certificate: `required`, `requested` (they may) or `none`. Of a SASL_SSL listener "
        "only what is said under its name counts (KIP-684).",
        one_of_in_any_case("required", "requested", "none"),
    ),
    per_broker(
        "ssl.enabled.protocols", LIST, "TLSv1.2,TLSv1.3", "Which versions of TLS.", each_of("TLSv1.2", "TLSv1.3")
    ),
    per_broker(
        "ssl.cipher.suites", LIST, "", "Which cipher suites, by the names Java has for them; empty: OpenSSL's choice."
    ),
    per_broker(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "Whether the certificate of another node has to name the host that this node connects to; empty: it has not.",
    ),
    fixed(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        "What the name of a certificate makes of its client: DEFAULT or RULE:pattern/replacement/[LU], parted by "
        "commas (KIP-371).",
    ),
    fixed(
        "ssl.allow.dn.changes",
        BOOLEAN,
        "false",
        "Whether a new certificate may have another name than the one before it.",
    ),
    fixed(
        "ssl.allow.san.changes",
        BOOLEAN,
        "false",
        "Whether a new certificate may lack alternative names that the one before it has.",
    ),
)

WITHOUT_EFFECT = tuple(
    replace(per_broker(name, kind, default, documentation), effective=False)
    for name, kind, default, documentation in (
        ("ssl.protocol", STRING, "TLSv1.3", "Versions are what `ssl.enabled.protocols` says."),
        ("ssl.provider", STRING, None, "The provider is OpenSSL."),
        ("ssl.keymanager.algorithm", STRING, "SunX509", "The provider is OpenSSL."),
        ("ssl.trustmanager.algorithm", STRING, "PKIX", "The provider is OpenSSL."),
        ("ssl.secure.random.implementation", STRING, None, "The provider is OpenSSL."),
        ("ssl.engine.factory.class", CLASS, None, "The provider is OpenSSL."),
    )
)

TLS_KEYS = (*STORES, *RULES, *WITHOUT_EFFECT)
