"""Kafka consumer groups, whole: a coordinator, an embedded record log and a test kit."""

__version__ = "0.1.0"
