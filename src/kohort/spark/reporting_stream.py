"""`groupMode=reporting`: commits a query's progress to a group, where lag tools see it.

The checkpoint decides where the query continues; the commits are for people. A failed commit is
therefore logged and superseded by the next one; it never stops the query. A group with live members
refuses them (UNKNOWN_MEMBER_ID), so this group must have no members.
"""

import logging
from typing import Final

from kohort.client.admin import Admin
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import KohortError
from kohort.spark import background
from kohort.spark.options import ReadOptions
from kohort.spark.positions import Positions
from kohort.types import GroupId

logger: Final = logging.getLogger("kohort.spark")


class Reporter:
    """Commits of one query."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._committed: Positions = {}
        self._last_error = ""

    def report(self, positions: Positions) -> None:
        """Commit the changes since the last call.

        It waits for the response, because the process may end right after.
        """
        changed = {
            tp: offset for tp, offset in positions.items() if self._committed.get(tp) != offset
        }
        if not changed:
            return
        try:
            errors = background.run(self._commit(changed))
        except KohortError as error:
            self._log_change(str(error))
            return
        self._committed |= {tp: offset for tp, offset in changed.items() if tp not in errors}
        self._log_change("; ".join(f"{tp}: {error}" for tp, error in errors.items()))

    async def _commit(self, positions: Positions) -> dict[object, KohortError]:
        cluster = await background.cluster(self._options.kafka)
        offsets = {tp: OffsetAndMetadata(offset=offset) for tp, offset in positions.items()}
        outcomes = await Admin(cluster).commit(GroupId(self._options.group_id or ""), offsets)
        return {tp: error for tp, error in outcomes.items() if error is not None}

    def _log_change(self, error: str) -> None:
        """Log `error` unless the last commit failed with it too; empty: no error."""
        if error and error != self._last_error:
            logger.warning(
                ("cannot commit progress to group %s: %s"), self._options.group_id, error
            )
        self._last_error = error
