"""Reads chosen partitions, without the membership of a group."""

from kohort.client.consumer.consumer import Consumer

__all__ = ["Consumer"]
