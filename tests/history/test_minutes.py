"""Minutes of partitions that are idle end by the time of the log, while others go on."""

import pytest

from history.offset_logs import LOG_PARTITION, batch_of
from history.reference_fold import Reference
from history.test_commit_fold import Folded, rows_of, wide
from history.test_gaps import commit
from kohort.history.schema import MINUTES

MINUTE_US = 60_000_000


@pytest.mark.parametrize("step", [1, 7, 60])
def test_idle_partitions_end_their_minutes_after_a_quarter_of_an_hour(step):
    """One group commits each minute; others now and then. The log is cut each `step` records."""
    plain = {"control": None, "producerId": None, "producerEpoch": None}
    log = [
        commit(at, "busy" if at % 5 else f"idle-{at % 20}", at)
        | {"timestamp": at * MINUTE_US, **plain}
        for at in range(60)
    ]
    parts = [batch_of(log[at : at + step]) for at in range(0, len(log), step)]
    folded = Folded(parts, round_trips=True)
    expected = Reference(LOG_PARTITION).fold(log)
    assert folded.rows("minutes", with_open=False) == wide(expected.minutes, MINUTES)
    open_minutes = rows_of([folded.state.open_rows()["minutes"]])
    assert open_minutes == wide(expected.open_minutes(), MINUTES)
    assert len(open_minutes) == 4
