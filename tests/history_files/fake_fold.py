"""A fold in few lines with the contract of `kohort.history.fold`, for tests of files.

A record is a commit of its offset, by its key as topic. Each fifth record ends a generation.
"""

import json
from types import SimpleNamespace

import pyarrow as pa

from kohort.history.schema import COMMITS, COVERAGE, GENERATIONS


class State:
    open_commits = 0

    def __init__(self, log_partition, next_offset=0, last=None):
        self.log_partition = log_partition
        self.next_offset = next_offset
        self.last = last or {}
        """Topic → last committed offset, and its time."""
        self.coverage = SimpleNamespace(gaps=[], known_gaps=[], log_start=0, last_time=None)

    @classmethod
    def new(cls, log_partition, options=None):
        return cls(log_partition)

    @classmethod
    def from_arrow(cls, data):
        return cls(*json.loads(bytes(data)))

    def to_arrow(self):
        return json.dumps([self.log_partition, self.next_offset, self.last]).encode()

    def open_rows(self):
        begun = self.next_offset - self.next_offset % 5
        row = generation(self.log_partition, begun, None, None) | {"ended_by": "open"}
        return {"generations": batch(GENERATIONS, [row])}

    def coverage_row(self):
        row = {
            "log_partition": self.log_partition,
            "first": 0,
            "end": self.next_offset,
            "errors": 0,
        }
        return batch(COVERAGE, [row])


def fold(state, records):
    commits, generations = [], []
    for record in records.to_pylist():
        topic, offset, time = record["key"].decode(), record["offset"], record["timestamp"]
        commits.append({
            "log_partition": state.log_partition, "log_offset": offset, "time": time,
            "in_force": offset, "in_force_time": time, "type": "offset", "group": "g",
            "life": 0, "topic": topic,
            "partition": 0, "committed": None if record["value"] is None else offset,
            "previous": state.last.get(topic), "kind": "advance", "certainty": "exact",
        })  # fmt: skip
        state.last[topic] = offset
        state.next_offset = offset + 1
        if offset % 5 == 4:
            generations.append(generation(state.log_partition, offset - 4, offset, time))
    rows = {"commits": batch(COMMITS, commits), "generations": batch(GENERATIONS, generations)}
    return rows, state


def generation(log_partition, offset, ended_offset, ended):
    return {
        "log_partition": log_partition, "group": "g", "life": 0, "type": "classic",
        "generation": offset // 5, "log_offset": offset, "time": ended, "members": ["m"],
        "ended": ended, "ended_offset": ended_offset, "ended_by": "next", "complete": True,
    }  # fmt: skip


def batch(schema, rows):
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def fold_parts(state, records):
    yield fold(state, records)
