"""Committed offsets from one cluster to another: exported with the records around each offset."""

from kohort.client.transfers.export import Export, ExportedOffset, ExportError
from kohort.client.transfers.locating import SEARCHED_RECORDS, Located, Method, locate
from kohort.client.transfers.marks import RecordMark, mark_of
from kohort.client.transfers.reading import marks_around, read_range

__all__ = [
    "SEARCHED_RECORDS",
    "Export",
    "ExportError",
    "ExportedOffset",
    "Located",
    "Method",
    "RecordMark",
    "locate",
    "mark_of",
    "marks_around",
    "read_range",
]
