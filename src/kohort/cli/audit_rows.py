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
_OWNER: Final = ("member_id", "client_id", "client_host", "generation")


@dataclass(frozen=True, slots=True)
class AuditedCommit:
    """A row of `commits`, and whether it was part of a reset."""

    fields: "Row"
    is_reset: bool

    def row(self) -> tuple[object, ...]:
        fields = self.fields
        return (
            _text(fields["in_force_time"]),
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

    def _kind(self) -> str:
        """The kind; "?" if compaction has removed what was before."""
        fields = self.fields
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
            "time": _text(fields["in_force_time"]),
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
        }


def audited(
    reader: "GroupReader",
    scope: Mapping[str, Collection[int] | None] | None,
    since: datetime | None,
    until: datetime | None,
) -> "tuple[list[AuditedCommit], list[Reset]]":
    """The commits in the order in which they counted, and the resets that they were part of.

    `scope`: topic → its partitions, None for all. Raises KohortError.
    """
    from kohort.history.resets import find_resets
    from kohort.history.rows import rows_of

    commits = reader.table("commits", [("in_force", ">=", 0)])
    shown = _between(commits, since, until)
    rows = [row for row in rows_of(shown) if scope is None or _is_in(row, scope)]
    rows.sort(key=lambda row: (row["in_force"], row["log_offset"]))
    resets = {each.log_offset: reset for reset in find_resets(commits) for each in reset.partitions}
    made = [AuditedCommit(row, row["log_offset"] in resets) for row in rows]
    found = {
        resets[row["log_offset"]].log_offset: resets[row["log_offset"]]
        for row in rows
        if row["log_offset"] in resets
    }
    return made, list(found.values())


def _between(commits: "pa.Table", since: datetime | None, until: datetime | None) -> "pa.Table":
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    if since is not None:
        commits = commits.filter(pc.greater_equal(commits["in_force_time"], since))
    if until is not None:
        commits = commits.filter(pc.less_equal(commits["in_force_time"], until))
    return commits


def _is_in(row: "Row", scope: Mapping[str, Collection[int] | None]) -> bool:
    partitions = scope.get(row["topic"], ())
    return partitions is None or row["partition"] in partitions


def _text(time: datetime | None) -> str | None:
    from kohort.history_files.reading import text_of

    return text_of(time)
