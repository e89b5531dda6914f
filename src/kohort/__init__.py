"""Kafka-compatible server, client and Spark source for consumer groups."""

__version__ = "0.1.0"
