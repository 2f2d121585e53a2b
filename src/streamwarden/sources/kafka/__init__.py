"""The source that reads topics of a Kafka broker."""
