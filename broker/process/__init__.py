"""process: the world around the broker: clock, threads, tasks, memory, log lines."""
