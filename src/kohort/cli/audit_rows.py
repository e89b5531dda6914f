"""The commits of a group as an audit shows them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from kohort.history.resets import Reset
    from kohort.history_files.reading import GroupReader, Row

INFERRED: Final = "(inferred)"
RESET: Final = "RESET"
UNREADABLE: Final = "unreadable"
_OWNER: Final = ("member_id", "client_id", "client_host", "generation")


@dataclass(frozen=True, slots=True)
class AuditedCommit:
    """A row of `commits`, and whether it was part of a reset."""

    fields: "Row"
    is_reset: bool

    def row(self) -> tuple[object, ...]:
        fields = self.fields
        return (
            self._time(),
            fields["topic"],
            fields["partition"],
            self._kind(),
            fields["previous"],
            fields["committed"],
            self._by(),
            fields["client_id"],
            fields["client_host"],
            fields["generation"],
            fields["metadata"],
            fields["log_offset"],
        )

    def _time(self) -> str | None:
        """Since when it counted; of a record that cannot be decoded, its own time."""
        is_unreadable = self.fields["error"] is not None
        return _text(self.fields["time" if is_unreadable else "in_force_time"])

    def _kind(self) -> str:
        """The kind; "?" if what was before was removed, or cannot be decoded."""
        fields = self.fields
        if fields["error"] is not None:
            return UNREADABLE
        doubt = "?" if fields["certainty"] == "unknown" else ""
        cause = f" ({fields['cause']})" if fields["cause"] else ""
        return f"{RESET if self.is_reset else fields['kind']}{doubt}{cause}"

    def _by(self) -> str:
        origin, member = self.fields["origin"], self.fields["member_id"]
        if member is None:
            return str(origin or "")
        transaction = "transaction, " if origin == "transaction" else ""
        return f"{transaction}{member} {INFERRED}"

    def as_json(self) -> dict[str, Any]:
        fields = self.fields
        owner = {name: fields[name] for name in _OWNER} | {"inferred": True}
        return {
            "time": self._time(),
            "commit_time": _text(fields["commit_time"]),
            "log_partition": fields["log_partition"],
            "log_offset": fields["log_offset"],
            "topic": fields["topic"],
            "partition": fields["partition"],
            "committed": fields["committed"],
            "previous": fields["previous"],
            "kind": fields["kind"],
            "cause": fields["cause"],
            "reset": self.is_reset,
            "origin": fields["origin"],
            "owner": None if fields["member_id"] is None else owner,
            "metadata": fields["metadata"],
            "certainty": fields["certainty"],
            "error": fields["error"],
        }


def audited(
    reader: "GroupReader",
    scope: Mapping[str, Collection[int] | None] | None,
    since: datetime | None,
    until: datetime | None,
) -> "tuple[list[AuditedCommit], list[Reset]]":
    """The commits in the order in which they counted, and the resets that they were part of.

    Those that cannot be decoded are among them: they may have counted. `scope`: topic → its
    partitions, None for all. Raises KohortError.
    """
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    from kohort.history.resets import find_resets
    from kohort.history.rows import rows_of

    records = reader.table("commits")
    commits = records.filter(pc.is_valid(records["in_force"]))
    unreadable = records.filter(pc.is_valid(records["error"]))
    shown = pa.concat_tables([
        _between(commits, "in_force_time", since, until),
        _between(unreadable, "time", since, until),
    ])  # fmt: skip
    rows = [row for row in rows_of(shown) if scope is None or _is_in(row, scope)]
    rows.sort(key=_position)
    resets = {each.log_offset: reset for reset in find_resets(commits) for each in reset.partitions}
    made = [AuditedCommit(row, row["log_offset"] in resets) for row in rows]
    found = {
        resets[row["log_offset"]].log_offset: resets[row["log_offset"]]
        for row in rows
        if row["log_offset"] in resets
    }
    return made, list(found.values())


def _position(row: "Row") -> tuple[int, int]:
    """In the log; of a record that cannot be decoded, its own."""
    in_force, log_offset = row["in_force"], row["log_offset"]
    return log_offset if in_force is None else in_force, log_offset


def _between(
    commits: "pa.Table", time: str, since: datetime | None, until: datetime | None
) -> "pa.Table":
    """The commits whose column `time` is between the two."""
    import pyarrow.compute as pc

    if since is not None:
        commits = commits.filter(pc.greater_equal(commits[time], since))
    if until is not None:
        commits = commits.filter(pc.less_equal(commits[time], until))
    return commits


def _is_in(row: "Row", scope: Mapping[str, Collection[int] | None]) -> bool:
    partitions = scope.get(row["topic"], ())
    return partitions is None or row["partition"] in partitions


def _text(time: datetime | None) -> str | None:
    from kohort.history_files.reading import text_of

    return text_of(time)
