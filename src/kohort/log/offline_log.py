"""A log that is not served, and not changed: it is damaged, or its files cannot be read."""

from collections.abc import Callable
from typing import NoReturn

from kohort.errors import ErrorCode, KafkaError, fresh
from kohort.log.backing import Checkpoint
from kohort.log.base import LogConfig
from kohort.log.leader_epochs import ONLY
from kohort.types import Timestamp, TopicPartition

UNKNOWN = -1
"""Kafka's value of an offset that is not known."""


class _OfflineState:
    """The `LogState` of a log that is offline."""

    start_offset = end_offset = high_watermark = last_stable_offset = UNKNOWN
    leader_epoch = UNKNOWN
    leader_epochs = ONLY

    def __init__(
        self, topic_partition: TopicPartition, config: LogConfig, failure: KafkaError | None
    ) -> None:
        self.topic_partition = topic_partition
        self.config = config
        self.failure = failure

    def ensure_open(self) -> NoReturn:
        assert self.failure is not None
        raise fresh(self.failure)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        self.ensure_open()

    async def _refuse_later(self, *_: object) -> NoReturn:
        self._refuse()


class _OfflineAppender(_OfflineState):
    in_leader_transition = False
    failed_syncs = 0
    append = append_encoded = append_marker = _OfflineState._refuse
    ongoing_transaction = begin_verification = _OfflineState._refuse
    durable = _OfflineState._refuse_later


class _OfflineReader(_OfflineState):
    size = 0
    is_loading = False
    read = fetch = read_committed = next_offset_after = _OfflineState._refuse
    offset_for_timestamp = max_timestamp = _OfflineState._refuse
    wait_beyond = _OfflineState._refuse_later

    async def loaded(self) -> None:
        pass

    def on_append(self, callback: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        return _nothing


class _OfflineMaintenance(_OfflineState):
    checkpoint = Checkpoint()
    trim = active_producers = _OfflineState._refuse

    def configure(self, config: LogConfig) -> None:
        self.config = config

    async def retain(self, now: Timestamp) -> int:  # noqa: ARG002
        return 0

    async def compact(self, now: Timestamp) -> bool:  # noqa: ARG002
        return False

    def close(self) -> None:
        pass


class _OfflineSync(_OfflineState):
    syncs_in_order = False
    sync = retry_sync = _OfflineState._refuse

    def owner_synced(self, *_: object) -> None:
        pass

    owner_sync_failed = sync_failed = sync_resumed = owner_synced

    def unsynced(self) -> list[str]:
        return []

    def running_sync(self) -> None:
        pass

    def prepare_clean_shutdown(self) -> Callable[[], None]:
        return _nothing


class OfflineLog(_OfflineAppender, _OfflineReader, _OfflineMaintenance, _OfflineSync):
    """A `Log` whose operations all raise the stored error. Its offsets are -1."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        failure: KafkaError | None,
        *,
        can_reopen: bool = False,
    ) -> None:
        """`can_reopen`: the files could not be read, and may be readable later.

        `failure` may be None if `ensure_open` is another one.
        """
        super().__init__(topic_partition, config, failure)
        self.can_reopen = can_reopen

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.topic_partition}>"

    def end(self, code: ErrorCode) -> None:
        """The log was removed: every call raises `code` from now on."""
        self.failure = KafkaError(code, f"the log of {self.topic_partition} is closed")


def _nothing() -> None:
    pass
