"""Passes the offsets of a member's micro-batches to a sink, which commits them in its transactions.

A sink cannot ask Spark for its sources. Both run in processes beside the driver's JVM, and share
files in the directory that Spark makes for the files of its SparkContext. Other users cannot write
to it, other drivers do not use it, and it exists as long as the driver. Each file has one writer:

    ….source   the plan of the micro-batch, from the source, before Spark reads it
    ….lock     locked by the source until its process ends
    ….sink     the token of the last plan that was committed, from the sink

Each plan has a unique token. Spark creates a writer after the sources have planned and before the
tasks begin. The writer passes the token to the tasks, and their messages pass it to the sink. A
sink with a token has a member as its source: it commits rows only with the offsets of that plan,
and only while the source lives. A plan without offsets has no records.

The plan also has the producer of the sink: the source fences the sinks of earlier drivers when it
begins. If the coordinator has another producer, a later driver has fenced this one, and must not be
fenced in turn.
"""

import fcntl
import hashlib
import json
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pyspark.core.files import SparkFiles

from kohort.client.group_metadata import GroupMetadata
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import KohortError
from kohort.spark.positions import TopicIds
from kohort.types import TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

_PAUSE_S: Final = 0.1
_USER_FILES: Final = "userFiles-"
"""Begins the name of the directory that a driver makes for `SparkContext.addFile` (SparkEnv)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPlan:
    """Offsets to commit with the rows of a micro-batch."""

    transactional_id: str
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    """Unique to this plan."""
    producer: tuple[int, int]
    """Id and epoch that the sink's coordinator has, unless another driver has fenced this one."""
    group: GroupMetadata | None = None
    offsets: Offsets = field(default_factory=dict)
    """Empty if the micro-batch has no records of the member."""
    topic_ids: TopicIds = field(default_factory=dict)
    """Ids of the topics of `offsets`."""

    def mark_committed(self, producer: tuple[int, int]) -> None:
        """Record that `producer` has committed the offsets."""
        _write(_path(self.transactional_id, "sink"), {"token": self.token, "producer": producer})

    def renewed(self, wait_s: float) -> "MemberPlan | None":
        """The plan in a later generation of the member; None if there is none within `wait_s`."""
        deadline = time.monotonic() + wait_s
        while (plan := member_plan(self.transactional_id, self.token)).group == self.group:
            if time.monotonic() >= deadline:
                return None
            time.sleep(_PAUSE_S)
        return plan


def plan_token(transactional_id: str) -> str | None:
    """The token of the last plan for this sink; None if its source is not a member."""
    content = _read(_path(transactional_id, "source"))
    return None if content is None else str(content["token"])


def member_plan(transactional_id: str, token: str) -> MemberPlan:
    """The plan with this token. Raises KohortError if its source has ended."""
    content = _read(_path(transactional_id, "source"))
    if (
        content is None
        or content["token"] != token
        or not _is_locked(_path(transactional_id, "lock"))
    ):
        raise KohortError(
            f"transactionalSink {transactional_id}: the source of this micro-batch has ended, so "
            "its offsets cannot be committed. None of its rows is written. Its process beside the "
            "driver was killed, by the system if memory was short; start the query again"
        )
    return MemberPlan(
        transactional_id=transactional_id,
        token=token,
        producer=tuple(content["producer"]),
        group=None if content["group"] is None else GroupMetadata(**content["group"]),
        offsets={
            TopicPartition(topic, partition): OffsetAndMetadata(**offset)
            for topic, partition, offset in content["offsets"]
        },
        topic_ids=content["topic_ids"],
    )


class SinkOffsets:
    """The source's side of the files."""

    def __init__(self, transactional_id: str) -> None:
        self._transactional_id = transactional_id
        self._path = _path(transactional_id, "source")
        self._lock: int | None = None
        self._plan: MemberPlan | None = None
        """Plan of the micro-batch in flight; None before the sink's producers are fenced."""

    def open(self, wait_s: float) -> None:
        """Become the source of the sink after its previous source has ended.

        Raises KohortError after `wait_s`, OSError.
        """
        lock = os.open(_path(self._transactional_id, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + wait_s
        while not _try_lock(lock, fcntl.LOCK_EX):
            if time.monotonic() >= deadline:
                os.close(lock)
                raise KohortError(
                    f"option transactionalSink: another source of this driver already uses the "
                    f"sink {self._transactional_id}; each query needs one such source and its own "
                    "kafka.transactional.id"
                )
            time.sleep(_PAUSE_S)
        self._lock = lock

    def begin(self, producer: tuple[int, int]) -> None:
        """Write the first plan. `producer` has fenced the sinks of earlier drivers."""
        self._write_plan(MemberPlan(transactional_id=self._transactional_id, producer=producer))

    def plan_commit(self, group: GroupMetadata, offsets: Offsets, topic_ids: TopicIds) -> None:
        """Have the sink commit these offsets with the next rows. Raises OSError."""
        plan = replace(self._empty(), group=group, offsets=offsets, topic_ids=topic_ids)
        self._write_plan(plan)

    def renew(self, group: GroupMetadata) -> None:
        """Replace the generation of the plan: the member still has all partitions."""
        if self._plan is not None and self._plan.offsets:
            self._write_plan(replace(self._plan, group=group))

    def end_micro_batch(self) -> None:
        """Replace the plan of the micro-batch that has ended by one without offsets.

        Raises KohortError if the offsets were not committed.
        """
        if self._plan is not None and self._plan.offsets:
            producer = self._committing_producer()
            if producer is None:
                raise KohortError(
                    "a micro-batch has ended without a commit of its offsets: with "
                    f"transactionalSink {self._transactional_id} the query needs a sink with "
                    "writeStream.format('kohort'), delivery=exactly_once and that "
                    "kafka.transactional.id"
                )
            self._write_plan(replace(self._empty(), producer=producer))

    def close(self) -> None:
        """Release the sink for another source. Idempotent.

        A micro-batch in flight keeps its plan, so that its sink fails rather than omit the offsets.
        """
        lock, self._lock = self._lock, None
        if lock is not None:
            if self._plan is None or not self._plan.offsets:
                self._path.unlink(missing_ok=True)
            os.close(lock)

    def _empty(self) -> MemberPlan:
        assert self._plan is not None, "before begin"
        return MemberPlan(transactional_id=self._transactional_id, producer=self._plan.producer)

    def _committing_producer(self) -> tuple[int, int] | None:
        """The producer that committed the plan; None before that."""
        content = _read(_path(self._transactional_id, "sink"))
        assert self._plan is not None
        if content is None or content["token"] != self._plan.token:
            return None
        producer_id, epoch = content["producer"]
        return producer_id, epoch

    def _write_plan(self, plan: MemberPlan) -> None:
        assert self._lock is not None, "not opened"
        offsets = [[*tp, asdict(offset)] for tp, offset in plan.offsets.items()]
        group = None if plan.group is None else asdict(plan.group)
        content = {
            "token": plan.token,
            "producer": plan.producer,
            "group": group,
            "offsets": offsets,
        }
        _write(self._path, content | {"topic_ids": plan.topic_ids})
        self._plan = plan


def _path(transactional_id: str, kind: str) -> Path:
    name = hashlib.sha256(transactional_id.encode()).hexdigest()[:32]
    return _directory() / f"kohort-{name}.{kind}"


def _directory() -> Path:
    """The driver's directory of files. Raises KohortError.

    Spark's processes run in directories inside it: sources in `streaming_job`, others in that of
    their session.
    """
    root = Path(SparkFiles.getRootDirectory())
    for directory in (root, *root.parents):
        if directory.name.startswith(_USER_FILES):
            return directory
    raise KohortError(f"the files of Spark's driver are in {root}, not in a {_USER_FILES}…")


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Replace the file at once. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(content, file)
    new.replace(path)


def _read(path: Path) -> Any:
    """None if it does not exist."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None


def _is_locked(path: Path) -> bool:
    """Whether a running process has locked the file."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(file, fcntl.LOCK_SH)
    finally:
        os.close(file)


def _try_lock(file: int, how: int) -> bool:
    """Lock the file; False if another process holds a conflicting lock."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
