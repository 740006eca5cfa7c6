"""How much clients may do: what was used lately (`rates`), who is counted together and up to where (`limits`), the
quotas of users and client ids (`client_quotas`), what one request is charged (`charge`)."""
