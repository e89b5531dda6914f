"""Finds the partitions below data directories, by Kafka's names.

A partition is a directory TOPIC-PARTITION. Directories that a broker is about to delete, to move or
to create have other names: `…-delete`, `…-future`, `…-stray`, `~new-…`. Data directories of Kohort
have those of its workers below them: `worker1`, `worker2` and so on.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

from kohort.errors import ConfigError, KohortError
from kohort.segments.replica import Replica
from kohort.segments.segment import SEGMENT
from kohort.segments.storage import Directory, Entry, locate
from kohort.types import TopicPartition

_PARTITION: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_WORKER: Final = re.compile(r"worker[1-9][0-9]{0,3}")


def find_replicas(
    paths: Iterable[str], is_wanted: Callable[[TopicPartition], bool] = lambda _: True
) -> dict[TopicPartition, list[Replica]]:
    """The partitions below `paths`, each with its replicas, sorted.

    A path or URI is that of a data directory, of a partition's directory, or of a segment file of a
    partition. Several files of one directory are one replica. Raises ConfigError if a path is none
    of them, KohortError if a directory cannot be read.
    """
    files: dict[str, tuple[Directory, set[str]]] = {}
    found: dict[TopicPartition, dict[str, Replica]] = {}
    for path in paths:
        directory, name = locate(path)
        if name is None:
            for replica in _below(directory):
                found.setdefault(replica.partition, {})[str(replica)] = replica
        elif SEGMENT.fullmatch(name):
            files.setdefault(str(directory), (directory, set()))[1].add(name)
        else:
            raise ConfigError(f"{path} is no segment file: these are named by 20 digits and .log")
    for directory, names in files.values():
        replica = Replica(directory, _named(directory), frozenset(names))
        found.setdefault(replica.partition, {}).setdefault(str(replica), replica)
    return {
        tp: sorted(replicas.values(), key=str)
        for tp, replicas in sorted(found.items())
        if is_wanted(tp)
    }


def longest(replicas: Iterable[Replica]) -> Replica:
    """The replica with the highest end offset; the first of several. Raises KohortError."""
    candidates = list(replicas)
    return candidates[0] if len(candidates) == 1 else max(candidates, key=Replica.end)


def _below(directory: Directory) -> Iterator[Replica]:
    """The partitions of a directory, which is a partition's or a data directory."""
    try:
        entries = directory.entries()
    except FileNotFoundError:
        raise KohortError(f"{directory} was deleted while it was read") from None
    if any(SEGMENT.fullmatch(entry.name) and not entry.is_directory for entry in entries):
        yield Replica(directory, _named(directory))
        return
    replicas = list(_of_data_directory(directory, entries))
    for entry in entries:
        if entry.is_directory and _WORKER.fullmatch(entry.name):
            worker = directory.child(entry.name)
            with suppress(FileNotFoundError):  # it was deleted meanwhile
                replicas += _of_data_directory(worker, worker.entries())
    if not replicas and (tp := _partition(directory.name)) is not None:
        replicas = [Replica(directory, tp)]
    if not replicas:
        raise ConfigError(
            f"{directory} has neither directories named TOPIC-PARTITION nor segment files"
        )
    yield from replicas


def _of_data_directory(directory: Directory, entries: Iterable[Entry]) -> Iterator[Replica]:
    for entry in entries:
        if entry.is_directory and (tp := _partition(entry.name)) is not None:
            yield Replica(directory.child(entry.name), tp)


def _named(directory: Directory) -> TopicPartition:
    tp = _partition(directory.name)
    if tp is None:
        raise ConfigError(
            f"{directory} has segment files, and is not named TOPIC-PARTITION as a broker does it"
        )
    return tp


def _partition(name: str) -> TopicPartition | None:
    match = _PARTITION.fullmatch(name)
    if match is None or int(match[2]) >= 2**31:
        return None
    return TopicPartition(match[1], int(match[2]))
