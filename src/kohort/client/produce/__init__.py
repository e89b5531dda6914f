"""Sends records: batches, idempotence, delivery results and dead letters."""

from kohort.client.produce.dead_letters import DeadLetters
from kohort.client.produce.producer import Producer

__all__ = ["DeadLetters", "Producer"]
