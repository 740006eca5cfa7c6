"""keystores: keys and certificates as Kafka's settings name them, for the broker and for clients alike.

`configured` a store as settings say it: `Store`, `own_identity`, `trusted_certificates`, `versions_of`
`stores` PEM, PKCS12 and JKS as certificates and keys; `jks` Java's own format, `der` the little of DER it needs
`cipher_suites` Java's names of cipher suites, and OpenSSL's
`key_files` reading files of keys, seeing that they changed, and handing a key to OpenSSL

It stands on nothing of ours, and needs the library `cryptography`.
"""
