"""demo: the main job. An exactly-once pipeline through kills, and a verdict on every record of it."""
