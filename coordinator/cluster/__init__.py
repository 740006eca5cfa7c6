"""cluster: topics, configs, producer-id blocks."""
