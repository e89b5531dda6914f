"""`interface.CommitTimes` by the slots of partitions."""

from statistics import median
from typing import Any, Final, TypeAlias

from kohort.columnar import commit_tables as fk
from kohort.history.interface import Owner
from kohort.history.partitions import Partitions
from kohort.history.silence import Silence
from kohort.history.tombstones import Tombstones
from kohort.types import TopicPartition

Array: TypeAlias = Any

_US: Final = 1000


class SlotTimes:
    """Commits of all groups, as of the record that is applied. Times are record times in ms."""

    def __init__(self, partitions: Partitions, silence: Silence, tombstones: Tombstones) -> None:
        self._partitions = partitions
        self._silence = silence
        self._tombstones = tombstones

    def assign(self, group: str, tp: TopicPartition, owner: Owner | None) -> None:
        self._partitions.assign(group, tp, owner)

    def last_commit(self, group: str, tp: TopicPartition) -> int | None:
        values = self._values(group, tp)
        if values is None or not values[fk.HAS_VALUE]:
            return None
        return int(values[fk.VALUE_TIME]) // _US

    def last_before_assigned(self, group: str, tp: TopicPartition) -> int | None:
        return self._time(group, tp, fk.BEFORE_ASSIGNED)

    def first_since_assigned(self, group: str, tp: TopicPartition) -> int | None:
        return self._time(group, tp, fk.SINCE_ASSIGNED)

    def usual_gap(self, group: str, tp: TopicPartition) -> float | None:
        values = self._values(group, tp)
        count = 0 if values is None else min(int(values[fk.GAPS]), fk.KEPT_GAPS)
        if values is None or not count:
            return None
        return float(median(values[fk.FIRST_GAP : fk.FIRST_GAP + count].tolist()))

    def was_silent(self, since: int, until: int) -> bool:
        return self._silence.was_silent(since * _US, until * _US)

    def first_commit(self, group: str) -> int | None:
        number = self._partitions.group_names.find(group)
        life = -1 if number is None else int(self._partitions.groups[number, fk.GROUP_LIFE])
        return None if life < 0 else life

    def offsets_expired(self, group: str, batch: int) -> bool | None:
        return self._tombstones.are_expired(group, batch)

    def _values(self, group: str, tp: TopicPartition) -> Array | None:
        slot = self._partitions.slot(group, tp)
        return None if slot < 0 else self._partitions.slots[slot]

    def _time(self, group: str, tp: TopicPartition, column: int) -> int | None:
        values = self._values(group, tp)
        if values is None or values[column] == fk.NONE:
            return None
        return int(values[column]) // _US
