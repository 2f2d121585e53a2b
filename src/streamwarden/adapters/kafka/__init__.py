"""Gateway to Kafka brokers."""
