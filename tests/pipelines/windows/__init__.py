"""windows: counts per page and minute, with late data and a watermark."""
