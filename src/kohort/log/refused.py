# ruff: noqa: ARG002 - every request is refused, whatever it asks
"""A log that is not served, and not changed: it is damaged, or its files cannot be read."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NoReturn

from kohort.errors import ErrorCode, KafkaError, fresh
from kohort.log.aborted_index import AbortedTransaction
from kohort.log.backing import Checkpoint
from kohort.log.base import Appended, LogConfig
from kohort.log.leader_epochs import ONLY
from kohort.log.lookup import Lookup
from kohort.log.producers import ActiveProducer, Verification
from kohort.log.storage import Records
from kohort.protocol.batches import Buffer
from kohort.types import Timestamp, TopicPartition

UNKNOWN = -1
"""Kafka's word for an offset that is not known."""


class RefusedLog:
    """A `Log` that raises why it is not served, whatever is asked of it; its offsets are -1."""

    syncs_in_order = False
    is_newly_led = False

    def __init__(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        failure: KafkaError | None,
        *,
        can_reopen: bool = False,
    ) -> None:
        """`can_reopen`: the files could not be read, and may be readable later.

        `failure` may be None if `_refuse` is another one.
        """
        self.topic_partition = topic_partition
        self.config = config
        self.failure = failure
        self.can_reopen = can_reopen
        self.start_offset = self.end_offset = self.high_watermark = UNKNOWN
        self.size = 0
        self.checkpoint = Checkpoint()
        self.leader_epoch = UNKNOWN
        self.leader_epochs = ONLY

    def __repr__(self) -> str:
        return f"<RefusedLog {self.topic_partition}>"

    def ensure_open(self) -> None:
        self._refuse()

    def configure(self, config: LogConfig) -> None:
        self.config = config

    @property
    def last_stable_offset(self) -> int:
        return UNKNOWN

    def append(
        self,
        batch: Buffer,
        now: Timestamp,
        *,
        verified: Verification | None = None,
        awaited: int | None = None,
    ) -> Appended:
        self._refuse()

    def ongoing_transaction(self, producer_id: int, producer_epoch: int) -> int | None:
        self._refuse()

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now: Timestamp, *, tv2: bool
    ) -> Verification:
        self._refuse()

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
        timestamp: int,
    ) -> int:
        self._refuse()

    def append_encoded(self, content: bytes, count: int, now: Timestamp) -> None:
        self._refuse()

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        at_least_one: bool = True,
        durable: bool = False,
    ) -> bytes:
        self._refuse()

    def fetch(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> Records:
        self._refuse()

    def read_committed(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True
    ) -> tuple[Records, Sequence[AbortedTransaction]]:
        self._refuse()

    def offset_behind(self, offset: int, size: int) -> int:
        self._refuse()

    def offset_for_timestamp(self, timestamp: int) -> Lookup:
        self._refuse()

    def max_timestamp(self) -> Lookup:
        self._refuse()

    def trim(self, before: int) -> None:
        self._refuse()

    def active_producers(self) -> Iterator[ActiveProducer]:
        self._refuse()

    async def retain(self, now: Timestamp) -> int:
        return 0

    async def compact(self, now: Timestamp) -> bool:
        return False

    def on_append(self, callback: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    async def wait_beyond(self, offset: int) -> None:
        self._refuse()

    async def durable(self) -> None:
        self._refuse()

    @property
    def is_loading(self) -> bool:
        return False

    async def loaded(self) -> None:
        pass

    def unsynced(self) -> list[str]:
        return []

    def sync(self, names: Iterable[str]) -> None:
        self._refuse()

    def owner_sync_failed(self, error: OSError, durable_end: int) -> None:
        self._refuse()

    def sync_failed(self, error: OSError) -> None:
        self._refuse()

    def retry_sync(self) -> Callable[[], None]:
        self._refuse()

    def sync_resumed(self) -> None:
        self._refuse()

    def settle(self) -> Callable[[], None]:
        return lambda: None

    def close(self) -> None:
        pass

    def end(self, code: ErrorCode) -> None:
        """The log was removed: every call raises `code` from now on."""
        self.failure = KafkaError(code, f"the log of {self.topic_partition} is closed")

    def _refuse(self) -> NoReturn:
        assert self.failure is not None
        raise fresh(self.failure)
