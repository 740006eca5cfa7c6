"""demo: the main job at small size, and planted faults that its verdict must find."""
