"""Settings: where they come from, which one holds, how they are described."""
