"""The sink that writes a topic of a Kafka broker."""
