"""Stories made up at random: their authors, and what Apache Kafka answered to a fixed set of them."""
