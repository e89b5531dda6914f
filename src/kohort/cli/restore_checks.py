"""What refuses a restore: another cluster, topics that were recreated, and what is not known.

Each raises StateRefusedError, which says what to do.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kohort.cli.reset_tables import StateRefusedError
from kohort.cli.restore_targets import Targets
from kohort.client.admin import Admin
from kohort.client.cluster import LATEST
from kohort.client.resets import TopicIds, topic_ids
from kohort.errors import KohortError, unless_error
from kohort.log.partition_mark import base64_id
from kohort.types import TopicPartition
from kohort.util.text import join_names

if TYPE_CHECKING:
    from kohort.history_files.committed import CommittedOffsets
    from kohort.history_files.reading import GroupReader
    from kohort.history_files.snapshot import Snapshot

LOG: Final = "__consumer_offsets"


async def require_same_history(admin: Admin, snapshot: "Snapshot", location: str) -> None:
    """Refuse the history of another cluster, or of a log that was deleted since."""
    cluster_id = (await admin.cluster.metadata(())).cluster_id
    if None not in (snapshot.cluster, cluster_id) and snapshot.cluster != cluster_id:
        raise StateRefusedError(
            f"{location}: is the history of cluster {snapshot.cluster}, this is {cluster_id}; "
            "check --history and --bootstrap, or move offsets between clusters by kohort history "
            "export and import"
        )
    if snapshot.topic_id is None:
        return
    topic_id = (await topic_ids(admin, [LOG])).ids.get(LOG)
    if topic_id is not None and base64_id(topic_id) != snapshot.topic_id:
        raise StateRefusedError(
            f"{location}: is the history of another {LOG} (topic id {snapshot.topic_id}, here it "
            f"is {base64_id(topic_id)}); check --history and --bootstrap"
        )


async def require_reached(
    admin: Admin, reader: "GroupReader", offsets: "CommittedOffsets", at_ms: int
) -> None:
    """Refuse a time at the end of the history, if the log has later records from before it."""
    if offsets.reaches_past:
        return
    tp = TopicPartition(LOG, offsets.log_partition)
    end = reader.coverage()["end"]
    try:
        first_later = await _first_later(admin, tp, at_ms)
    except KohortError as error:
        raise StateRefusedError(
            f"the history may end before this time, which the log would tell: {error}; choose an "
            f"earlier time than {reader.coverage()['last_time']}"
        ) from error
    if first_later > end:
        raise StateRefusedError(
            f"the history ends before this time: the log has {first_later - end} more records of "
            "then; read them by kohort history build"
        )


async def _first_later(admin: Admin, tp: TopicPartition, at_ms: int) -> int:
    """The first offset whose record is later, or the log's end. Raises KohortError."""
    end = unless_error((await admin.list_offsets({tp: LATEST}))[tp]).offset
    later = unless_error((await admin.list_offsets({tp: at_ms + 1}))[tp]).offset
    return end if later < 0 else later


def require_certain(
    offsets: "CommittedOffsets", targets: Targets, coverage: dict[str, Any], *, skip_unknown: bool
) -> None:
    """Refuse a time of which compaction has removed records, and partitions that are unknown."""
    if skip_unknown:
        return
    if offsets.gap is not None:
        raise StateRefusedError(
            "compaction had removed records from before this time when they were collected"
            f"{_complete_since(offsets, coverage)}; --skip-unknown restores the "
            f"{len(targets.commits)} partitions that are certain, and leaves out "
            f"{len(targets.unknown)} and those that the history does not name"
        )
    if targets.unknown:
        raise StateRefusedError(
            f"the offsets at this time are not known of {join_names(map(str, targets.unknown))}: "
            "records were removed from the log before they were collected, or cannot be decoded; "
            "--skip-unknown leaves these out"
        )


def _complete_since(offsets: "CommittedOffsets", coverage: dict[str, Any]) -> str:
    gap, since = offsets.gap, coverage["complete_from_time"]
    if gap is None or gap.complete_from is None or gap.complete_from != coverage["complete_from"]:
        return ""
    return f": the history is complete from {_text(since)} on" if since else ""


def _text(time: datetime) -> str | None:
    from kohort.history_files.reading import text_of

    return text_of(time)


def require_topics(targets: Targets, ids: TopicIds) -> None:
    """Refuse topics that do not exist, or were recreated."""
    choose = "choose others by --topic"
    if ids.missing:
        raise StateRefusedError(f"topic {join_names(ids.missing)} does not exist; {choose}")
    if recreated := targets.recreated(ids.ids):
        raise StateRefusedError(
            f"topic {join_names(recreated)} was recreated since: its offsets then are those of the "
            f"former topic; {choose}"
        )
