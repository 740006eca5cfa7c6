"""tallystick: the name people import and type."""
