"""The outcome of a producer's present transaction, or of its last one, and its age.

It is unknown from the first EndTxn that commits until the coordinator acknowledges or refuses it.
"""

import asyncio

from kohort.client.transaction_outcome import OnOutcome, TransactionOutcome
from kohort.errors import ErrorCode


class TransactionProgress:
    """The outcome of one transaction after the other."""

    def __init__(self) -> None:
        self.outcome: TransactionOutcome | None = None
        """None: the transaction is open, or there was none."""
        self._on_outcome: OnOutcome | None = None
        self._undecided_commits = 0
        """EndTxn requests of the commit that may have been executed."""
        self._began_at = 0.0

    @property
    def age_s(self) -> float:
        """Seconds since the transaction began."""
        return asyncio.get_running_loop().time() - self._began_at

    @property
    def is_committed(self) -> bool:
        return self.outcome is TransactionOutcome.COMMITTED

    @property
    def is_unknown(self) -> bool:
        return self.outcome is TransactionOutcome.UNKNOWN

    def begin(self, on_outcome: OnOutcome) -> None:
        """Begin a transaction; `on_outcome` receives every change of its outcome."""
        self.outcome, self._on_outcome, self._undecided_commits = None, on_outcome, 0
        self._began_at = asyncio.get_running_loop().time()

    def commit_sent(self) -> None:
        """An EndTxn that commits is sent, and may be executed."""
        self._undecided_commits += 1

    def commit_responded(self, code: ErrorCode) -> None:
        """The coordinator responded to the EndTxn that was sent last."""
        if code is ErrorCode.invalid_txn_state:  # aborted: also if others were executed before
            self._undecided_commits = 0
        elif not code.retriable and code is not ErrorCode.unknown_server_error:
            self._undecided_commits -= 1

    @property
    def final_outcome(self) -> TransactionOutcome:
        """The outcome of the transaction if no more requests are sent for it."""
        if self.is_committed:
            return TransactionOutcome.COMMITTED
        is_unknown = self._undecided_commits > 0
        return TransactionOutcome.UNKNOWN if is_unknown else TransactionOutcome.ABORTED

    def end(self, outcome: TransactionOutcome) -> None:
        """Set the outcome; `on_outcome` receives it if it has changed."""
        if outcome is self.outcome:
            return
        self.outcome = outcome
        if self._on_outcome is not None:
            self._on_outcome(outcome)
