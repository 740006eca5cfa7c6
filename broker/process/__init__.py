"""process: the world around the broker: clock, threads, tasks, log lines."""
