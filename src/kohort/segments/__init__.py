"""Partitions read from the segment files of Apache Kafka and Kohort, without a broker.

    for tp, replicas in find_replicas(["/var/lib/kafka"]).items():
        replica = longest(replicas)
        for batch in read(replica, replica.start(), replica.end(), ReadSettings()):
            ...                                                           # pyarrow.RecordBatch

A broker may run meanwhile. Compaction replaces files under their names, so what is read is a range
of offsets, not a file: the directory is listed again for each segment. This loses what compaction
removes, and never doubles a record.

`storage` opens directories, local or of an object store. `layout` finds the partitions below them.
`replica` lists the segments of one, `batch_walk` walks the batches of a segment, and `reading`
decodes a range. `time_lookup` finds the first record at or after a time.

Files have records that a broker does not serve: those above the high watermark, which may be
truncated, and those below the log start offset.

pyarrow is required, so all names are imported when first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kohort.segments.layout import find_replicas, longest
    from kohort.segments.reading import ReadSettings, read
    from kohort.segments.replica import Replica
    from kohort.segments.time_lookup import offset_at

_MODULES = {
    "ReadSettings": "reading",
    "Replica": "replica",
    "find_replicas": "layout",
    "longest": "layout",
    "offset_at": "time_lookup",
    "read": "reading",
}
__all__ = ["ReadSettings", "Replica", "find_replicas", "longest", "offset_at", "read"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
