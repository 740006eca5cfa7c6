"""The tests of backups, without a process."""
