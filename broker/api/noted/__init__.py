"""noted: `requests` on their way into the journal, and the `answers` that it gives."""
