"""Kafka-compatible server, client and Spark source for consumer groups."""

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# Type checkers take a module with __getattr__ for one that has any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from kohort.util.missing_names import missing

        raise missing(__name__, name)
