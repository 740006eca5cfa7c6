"""What becomes of a Fetch: sessions, looks at partitions, and what each is answered with."""
