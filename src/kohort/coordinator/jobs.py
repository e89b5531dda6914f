"""Background work that takes too long for one turn of the loop.

A shard starts a job by its `Result`. The runtime does it, and posts the resulting event to the same
shard, unless that was dropped meanwhile.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from kohort.assignors.server import Target, assign
from kohort.coordinator.requests import MayDescribe
from kohort.coordinator.specs import Snapshot, Specs
from kohort.util.regular_expression import RegularExpression, RegularExpressionError


@dataclass(frozen=True, slots=True)
class RegexesResolved:
    """Event: the regular expressions of a group were matched with the names of all topics."""

    group: str
    topics: Mapping[str, tuple[str, ...]]
    """Regular expression → the topics that it matches, sorted."""
    version: int
    """Version of the topics before they were matched."""
    bumps: bool = False
    """Whether already stored results bump the group epoch."""


@dataclass(frozen=True, slots=True)
class ResolveRegexes:
    """Match regular expressions with the names of all topics."""

    group: str
    regexes: tuple[str, ...]
    version: int
    """Version of the topics."""
    may_describe: MayDescribe | None = None

    def steps(self, names: Iterable[str], matched: dict[str, tuple[str, ...]]) -> Iterator[None]:
        """Put the result into `matched`, in steps of 1 µs to some milliseconds each.

        An expression that only Kafka accepts (in a log that Kafka wrote) matches nothing.
        """
        for regex in self.regexes:
            matching: list[str] = []
            with suppress(RegularExpressionError):
                expression = RegularExpression(regex)
                yield
                for name in names:
                    matches = yield from expression.steps(name)
                    if matches and (self.may_describe is None or self.may_describe(name)):
                        matching.append(name)
                    yield
            matched[regex] = tuple(sorted(matching))

    def done(self, matched: Mapping[str, tuple[str, ...]]) -> RegexesResolved:
        """The event for the shard."""
        return RegexesResolved(self.group, matched, self.version)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComputeTarget:
    """Compute the target assignment of a group: a pure function that may run in another thread."""

    group: str
    epoch: int
    assignor: str
    snapshot: Snapshot

    def changed(self) -> Iterator[tuple[str, Target]]:
        """The changed targets with their member ids."""
        specs, targets = Specs(self.snapshot), self.snapshot.targets
        assigned = assign(
            self.assignor, specs.members, specs.partitions, homogeneous=specs.is_homogeneous
        )
        for member_id, target in assigned.items():
            if target is not targets.get(member_id):
                yield member_id, target

    def done(self) -> "TargetComputed":
        """The event for the shard."""
        return TargetComputed(self, tuple(self.changed()))


@dataclass(frozen=True, slots=True)
class TargetComputed:
    """Event: store the computed target assignment of a large group.

    Each event stores a part of it and continues with the next event.
    """

    job: ComputeTarget
    changed: tuple[tuple[str, Target], ...]
    """(member id, new target) of the members whose target is not stored yet."""


@dataclass(frozen=True, slots=True)
class TargetFailed:
    """Event: the computation of a target assignment raised."""

    job: ComputeTarget
    error: str


Job: TypeAlias = ResolveRegexes | ComputeTarget
