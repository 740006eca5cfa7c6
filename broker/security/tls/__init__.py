"""tls: key stores as Kafka takes them, what OpenSSL is told of them, and who a certificate stands for."""
