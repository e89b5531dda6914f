"""Recovery of many logs after a crash of the machine: several at once, with its progress logged.

Checking a log is reading it, so threads wait for the disk beside each other, and one computes while
another one reads. Kafka does the same (`num.recovery.threads.per.data.dir`), also before it serves.
"""

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Lock
from typing import Final, TypeAlias

from kohort.errors import KafkaError
from kohort.log import recovery
from kohort.log.backing import Checkpoint
from kohort.log.repair import read_checkpoint
from kohort.log.segment import Segment
from kohort.log.segment_recovery import Progress
from kohort.log.stores import OpenFiles
from kohort.types import TopicPartition

logger = logging.getLogger("kohort.log")

_PROGRESS_INTERVAL_S: Final = 5.0
_MB: Final = 1_000_000

Found: TypeAlias = tuple[list[Segment], Checkpoint]
"""The result of `recovery.load`."""
Outcome: TypeAlias = Found | KafkaError | OSError
Load: TypeAlias = Callable[[TopicPartition, Progress], Found]
"""Recovers one log. Raises KafkaError, OSError, OpeningStoppedError."""


def recover_all(
    paths: Mapping[TopicPartition, str],
    load: Load,
    threads: int,
    *,
    line_every_s: float = _PROGRESS_INTERVAL_S,
) -> dict[TopicPartition, Outcome]:
    """`load` the logs in these directories, `threads` at once, with a log line now and then.

    Raises OpeningStoppedError as soon as all threads have ended.
    """
    begun = time.monotonic()
    work = _Work(len(paths), sum(map(_bytes_to_check, paths.values())))
    logger.info("recovering %s after an unclean shutdown of the machine", work)
    with ThreadPoolExecutor(threads, "kohort-recovery") as executor:
        outcomes: dict[TopicPartition, Future[Outcome]] = {
            partition: executor.submit(_outcome, load, partition, work) for partition in paths
        }
        while wait(outcomes.values(), line_every_s).not_done:
            logger.info("recovered %s", work.progress())
    results = {topic_partition: outcome.result() for topic_partition, outcome in outcomes.items()}
    logger.info("recovered %s in %.1f s", work, time.monotonic() - begun)
    return results


def _outcome(load: Load, topic_partition: TopicPartition, work: "_Work") -> Outcome:
    try:
        return load(topic_partition, work.note_bytes)
    except (KafkaError, OSError) as error:
        return error.with_traceback(None)
    finally:
        work.note_log()


def _bytes_to_check(path: str) -> int:
    """Bytes of the segments beyond the recovery point; 0 where they cannot be read."""
    try:
        recovery_point = read_checkpoint(path).recovery_point
        segments = recovery.found_segments(path, OpenFiles())
    except OSError:
        return 0
    return sum(
        segment.size
        for segment in segments
        if segment is segments[-1] or segment.end_offset > recovery_point
    )


class _Work:
    """Progress of a check: total and checked bytes; for several threads."""

    def __init__(self, logs: int, size: int) -> None:
        self._logs, self._bytes = logs, size
        self._logs_done = self._bytes_done = 0
        self._lock = Lock()

    def __str__(self) -> str:
        return f"{self._logs} logs with {self._bytes // _MB} MB"

    def note_bytes(self, count: int) -> None:
        with self._lock:
            self._bytes_done += count

    def note_log(self) -> None:
        with self._lock:
            self._logs_done += 1

    def progress(self) -> str:
        return (
            f"{self._logs_done} of {self._logs} logs, {self._bytes_done // _MB} of "
            f"{self._bytes // _MB} MB"
        )
