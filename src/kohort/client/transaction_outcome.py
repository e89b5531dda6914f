"""What became of a transaction, as far as its producer knows."""

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias


class TransactionOutcome(Enum):
    """The outcome of a transaction that has ended, or whose commit is under way."""

    COMMITTED = "committed"
    """The coordinator acknowledged the commit: records and offsets count, for good."""
    ABORTED = "aborted"
    """Nothing of it counts, for good. The coordinator may have to abort it after its timeout."""
    UNKNOWN = "unknown"
    """The commit was requested, and the coordinator has not told its outcome yet."""


OnOutcome: TypeAlias = Callable[[TransactionOutcome], None]
"""Called on the event loop whenever more is known of the outcome of a transaction."""
