"""partition: a partition as its leader sees it."""
