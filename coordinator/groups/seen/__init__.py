"""What is told of groups, and changes nothing: to administrators in Kafka's protocol, and whom they wait for."""
