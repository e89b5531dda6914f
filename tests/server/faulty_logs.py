"""A directory of logs in which a test lets single operations fail.

    bench.directory.fail("append", METADATA, OSError(28, "No space left on device"))

An operation of a log or of the directory itself (`open`, `remove`) then raises, for that partition
or, without one, for every partition. Everything else is passed on to the real directory.
"""

from typing import Any

from kohort.errors import ErrorCode, KafkaError
from kohort.types import TopicPartition

EVERY_PARTITION = None
NO_SPACE = OSError(28, "No space left on device")
IO_ERROR = OSError(5, "Input/output error")


class FaultyDirectory:
    """A `LogDirectory` around another one."""

    def __init__(self, directory: Any) -> None:
        self._directory = directory
        self._faults: dict[tuple[str, TopicPartition | None], BaseException] = {}
        self._logs: dict[int, FaultyLog] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._directory, name)

    @property
    def owned(self) -> "FaultyDirectory | None":
        return None if self._directory.owned is None else self

    def fail(
        self, operation: str, partition: TopicPartition | None, error: BaseException = NO_SPACE
    ) -> None:
        """Let `operation` raise `error` from now on."""
        self._faults[operation, partition] = error

    def heal(self) -> None:
        """Let nothing fail any more."""
        self._faults.clear()

    def check(self, operation: str, partition: TopicPartition) -> None:
        """Raise the error that `fail` has set."""
        for key in (operation, partition), (operation, EVERY_PARTITION):
            if key in self._faults:
                raise self._faults[key]

    def open(self, topic_partition: TopicPartition, *arguments: Any, **options: Any) -> Any:
        self.check("open", topic_partition)
        log = self._directory.open(topic_partition, *arguments, **options)
        known = self._logs.get(id(log))
        if known is None:
            known = self._logs[id(log)] = FaultyLog(log, self)
        return known

    def remove(self, topic_partition: TopicPartition, *arguments: Any) -> None:
        self.check("remove", topic_partition)
        self._directory.remove(topic_partition, *arguments)


class FaultyLog:
    """A `Log` around another one, of a `FaultyDirectory`."""

    def __init__(self, log: Any, directory: FaultyDirectory) -> None:
        self._log = log
        self._directory = directory

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._log, name)
        if not callable(found):
            return found

        def act(*arguments: Any, **options: Any) -> Any:
            self._directory.check(name, self._log.topic_partition)
            return found(*arguments, **options)

        return act


class LostLog:
    """A `Log` around another one. Its node leads it no more before the appends are durable."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def durable(self) -> None:
        raise KafkaError(ErrorCode.not_leader_or_follower)
