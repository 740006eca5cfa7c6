"""keys: the tables of settings of topics and brokers, and what their texts mean."""
