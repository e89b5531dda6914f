"""What clients were promised: acknowledged records and commits, and partitions of generations.

The ledger reads the messages of all clients. A promise is made when its response arrives, not when
the server sends it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from kohort.errors import ErrorCode
from kohort.protocol.batches import iterate
from kohort.testing.simulation.frames import Message
from kohort.testing.simulation.timeline import Timeline
from kohort.types import TopicPartition

_ALL_REPLICAS: Final = -1


class Violation(NamedTuple):
    """A broken invariant."""

    invariant: str
    detail: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.detail}"


class ProducedBatch(NamedTuple):
    """A batch of records, by what the log keeps of it."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    crc: int


@dataclass(slots=True, eq=False)
class Claim:
    """A partition as the task scopes of a member have it."""

    owner: str
    """The member, or the instance id of a static one."""
    is_over: Callable[[], bool]
    """Whether the member has given it up, or has died."""


class Ledger:
    """The promises of one simulation; its `Tap`."""

    def __init__(
        self,
        timeline: Timeline,
        topic_name: Callable[[UUID], str | None],
        on_violation: Callable[[], object],
    ) -> None:
        """`topic_name` finds the name of a topic id. `on_violation` ends the simulation."""
        self._on_violation = on_violation
        self.violations: list[Violation] = []
        self.rewinding_groups: set[str] = set()
        """Groups whose members may commit lower offsets than before."""
        self.commits: dict[tuple[str, TopicPartition], int] = {}
        """Acknowledged commits by group: the largest, or of a rewinding group the latest."""
        self.requested: dict[tuple[str, TopicPartition], set[int]] = {}
        """All offsets that members of rewinding groups have sent."""
        self.produced: dict[TopicPartition, dict[ProducedBatch, int]] = {}
        """Acknowledged batches, and their base offsets (-1: unknown)."""
        self.sent_records: Counter[tuple[str, bytes | None, bytes | None]] = Counter()
        """Number of `send` calls by topic, key and value, of idempotent producers."""
        self._timeline = timeline
        self._topic_name = topic_name
        self._claims: dict[tuple[str, int, TopicPartition], list[Claim]] = {}

    def report(self, invariant: str, detail: str) -> None:
        """Note a broken invariant."""
        if not self._timeline.is_over:
            self.violations.append(Violation(invariant, detail))
            self._timeline.add(f"VIOLATION {invariant}: {detail}")
            self._on_violation()

    # --- messages ---

    def arrived(self, message: Message) -> None:
        self._timeline.add_message(message)
        if message.api == "OffsetCommit":
            self._note_commit(message)
        elif message.api == "Produce" and message.request is not None:
            self._note_produced(message.request.decode(), message.decode())

    def lost(self, message: Message) -> None:
        self._timeline.add_message(message, "lost, and the connection cut")

    def _note_commit(self, message: Message) -> None:
        request = (message.request or message).decode()
        group = request.group_id
        offsets = {
            tp: partition.committed_offset
            for tp, partition in self._partitions(request.topics, "partition_index")
        }
        rewinds = group in self.rewinding_groups
        if message.request is None:
            if rewinds:
                for tp, offset in offsets.items():
                    self.requested.setdefault((group, tp), set()).add(offset)
            return
        for tp, partition in self._partitions(message.decode().topics, "partition_index"):
            if partition.error_code == ErrorCode.none:
                before = self.commits.get((group, tp), -1)
                self.commits[group, tp] = offsets[tp] if rewinds else max(before, offsets[tp])

    def _note_produced(self, request: Any, response: Any) -> None:
        if request.acks != _ALL_REPLICAS:
            return
        batches = {
            tp: partition.records for tp, partition in self._partitions(request.topic_data, "index")
        }
        for tp, partition in self._partitions(response.responses, "index"):
            if partition.error_code in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
                for _, header in iterate(batches[tp]):
                    batch = ProducedBatch(
                        header.producer_id, header.producer_epoch, header.base_sequence, header.crc
                    )
                    self.produced.setdefault(tp, {})[batch] = partition.base_offset

    def _partitions(self, topics: Any, index: str) -> Iterator[tuple[TopicPartition, Any]]:
        """The partitions of a request or response; those of unknown topic ids are left out."""
        for topic in topics:
            name = getattr(topic, "name", None) or self._topic_name(topic.topic_id)
            if name is None:
                continue
            partitions = getattr(topic, "partitions", None)
            if partitions is None:
                partitions = getattr(topic, "partition_data", None)
            if partitions is None:
                partitions = topic.partition_responses
            for partition in partitions:
                yield TopicPartition(name, getattr(partition, index)), partition

    # --- generations ---

    def claim(self, group: str, generation: int, partition: TopicPartition, claim: Claim) -> None:
        """A member's task scope has the partition from now on."""
        key = group, generation, partition
        claims = [each for each in self._claims.get(key, ()) if not each.is_over()]
        for other in claims:
            if other.owner != claim.owner:
                self.report(
                    "one owner",
                    f"{partition} is owned by {other.owner} and by {claim.owner} in generation "
                    f"{generation} of group {group}",
                )
        self._claims[key] = [*claims, claim]
