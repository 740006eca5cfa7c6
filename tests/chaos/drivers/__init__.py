"""Real clients behind one face (`driver`): librdkafka, kafka-python, aiokafka, Java."""
