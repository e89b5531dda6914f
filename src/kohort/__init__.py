"""Kafka-compatible server, client and Spark source for consumer groups."""

__version__ = "0.2.0"
