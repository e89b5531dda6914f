"""Transcripts of scenarios, without the values in which two correct servers may differ.

A transcript is a list of steps. Each has a label ("b: JoinGroup v9") and its result: a response
field by field, a closed connection, or no response. Values that legitimately differ are replaced:

- ids that a server invents (members, topics, producers, fetch sessions) by labels in order of
  first appearance. A value that the scenario itself made up and sent first has to be echoed
  exactly;
- node ids, hosts, ports, cluster id, the client's own address and times near the present by the
  kind of value;
- texts for humans (error messages) by the fact that there is one;
- the run's own suffix of group and topic names by nothing, also where it is in bytes;
- throttle times, and the features and unrelated APIs of ApiVersions, are left out;
- lists whose order is that of a hash map in Kafka are sorted.

Everything else counts: error codes, null against empty, and which partitions a response has, in
which order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kohort_conformance.plain import Plain

Step: TypeAlias = dict[str, Plain]
"""`{"step": label, "response": …}` or `{"step": label, "outcome": "…"}`."""

Leaf: TypeAlias = tuple[str, Plain]
"""A string, or the name of a field and its number: an id can be equal to any other number."""

LEFT_OUT = frozenset({"throttle_time"})
MEMBERS = frozenset({"member_id", "leader"})
IDENTIFIERS = {
    "topic_id": "topic id",
    "producer_id": "producer",
    "session_id": "session",
    "metadata_hash": "hash",
}
NODES = frozenset(
    {
        "node_id",
        "leader_id",
        "replica_id",
        "broker_id",
        "controller_id",
        "replica_nodes",
        "isr_nodes",
        "preferred_read_replica",
    }
)
KINDS = {
    "host": "host",
    "port": "port",
    "rack": "rack",
    "cluster_id": "cluster",
    "client_host": "client host",
    "coordinator_epoch": "epoch",
}
TEXTS = frozenset({"error_message", "batch_index_error_message", "documentation"})
UNORDERED = frozenset(
    {
        "members",
        "mechanisms",
        "brokers",
        "responses",
        "partition_responses",
        "active_producers",
        "results_by_topic_v3_and_below",
        "results_by_transaction",
        "topic_results",
        "results_by_partition",
        "transaction_states",
        "topic_partitions",
        "assigned_partitions",
        "partitions_pending_revocation",
        "subscribed_topic_names",
    }
)
RECENT_TIMES = range(1_600_000_000_000, 4_000_000_000_000)
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass
class Transcript:
    """The steps of one run of one scenario, and which values were the scenario's own."""

    suffix: str
    steps: list[Step] = field(default_factory=list)
    _own: set[Leaf] = field(default_factory=set)
    _heard: set[Leaf] = field(default_factory=set)

    def sent(self, values: Any) -> None:
        """What goes out: values that no response has brought yet are the scenario's own."""
        self._own |= set(_leaves("", values)) - self._heard

    def heard(self, response: Plain) -> None:
        """What came in, also in responses that are not recorded."""
        self._heard |= set(_leaves("", response)) - self._own

    def record(self, label: str, response: Plain) -> None:
        self.steps.append({"step": label, "answer": response})

    def record_outcome(self, label: str, outcome: str) -> None:
        self.steps.append({"step": label, "outcome": outcome})

    def normalised(self) -> list[Step]:
        """The steps with what may differ replaced; the recorded ones stay as they are."""
        return Normaliser(self.suffix, frozenset(self._own)).steps(self.steps)


def _leaves(name: str, value: Any) -> Iterator[Leaf]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _leaves(key, one)
    elif isinstance(value, (list, tuple, set)):
        for one in value:
            yield from _leaves(name, one)
    elif isinstance(value, (bytes, bool, float)) or value is None:
        return
    else:
        yield _leaf(name, value if isinstance(value, int) else str(value))


def _leaf(name: str, value: Plain) -> Leaf:
    return (name if isinstance(value, int) else "", value)


class Normaliser:
    """Labels generated values by first appearance, over all steps of one scenario."""

    def __init__(self, suffix: str, own: frozenset[Leaf]) -> None:
        self._suffix = suffix
        self._own = own
        self._labels: dict[tuple[str, Plain], str] = {}

    def steps(self, steps: list[Step]) -> list[Step]:
        return [{name: self._field(name, value) for name, value in step.items()} for step in steps]

    def _value(self, name: str, value: Plain) -> Plain:
        if isinstance(value, dict):
            return {key: self._field(key, one) for key, one in value.items() if key not in LEFT_OUT}
        if isinstance(value, list):
            return [self._field(name, one) for one in self._in_order(name, value)]
        if isinstance(value, str):
            return value.replace(self._suffix, "").replace(self._suffix.encode().hex(), "")
        if isinstance(value, int) and not isinstance(value, bool) and value in RECENT_TIMES:
            return "<time>"
        return value

    def _field(self, name: str, value: Plain) -> Plain:
        if isinstance(value, (dict, list)) or value is None or value == "":
            return self._value(name, value)
        if name in MEMBERS and isinstance(value, str):
            return self._label("member", name, value)
        if name in IDENTIFIERS and value not in (0, -1):
            return self._label(IDENTIFIERS[name], name, value)
        if name in NODES and isinstance(value, int):
            return "<node>" if value >= 0 else value
        if name in KINDS and value != -1:
            return f"<{KINDS[name]}>"
        return "<text>" if name in TEXTS else self._value(name, value)

    def _label(self, kind: str, name: str, value: Plain) -> Plain:
        if _leaf(name, value) in self._own:
            return self._value("", value)
        count = sum(1 for known, _ in self._labels if known == kind)
        return self._labels.setdefault((kind, value), f"<{kind} {count + 1}>")

    def _in_order(self, name: str, values: list[Plain]) -> list[Plain]:
        numbers = [one for one in values if isinstance(one, int)]
        if name == "partitions" and len(numbers) == len(values):
            return [*sorted(numbers)]
        return sorted(values, key=self._masked) if name in UNORDERED else values

    def _all_in_order(self, name: str, value: Plain) -> Plain:
        """The value with all lists within it in order."""
        if isinstance(value, dict):
            return {key: self._all_in_order(key, one) for key, one in value.items()}
        if isinstance(value, list):
            return self._in_order(name, [self._all_in_order(name, one) for one in value])
        return value

    def _masked(self, value: Plain) -> tuple[str, str]:
        """A key that sorts alike whatever ids the server invented.

        Ids that have a label already count by it.
        """
        value = self._all_in_order("", value)
        kept = (
            {key: one for key, one in value.items() if key not in MEMBERS | IDENTIFIERS.keys()}
            if isinstance(value, dict)
            else value
        )
        labels = {known: label for (_, known), label in self._labels.items()}

        def text(value: Plain) -> str:
            return UUID.sub(
                lambda found: str(labels.get(found[0], "")), json.dumps(value, sort_keys=True)
            )

        return text(kept), text(value)
