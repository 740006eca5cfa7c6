"""Share groups: members and assignments, records on their way, and administration."""
