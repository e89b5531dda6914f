"""Rows of DataFrames and of the fold, in a form that compares."""

from datetime import UTC, datetime


def plain(value):
    """Without the types of Spark and of Arrow."""
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return bytes(value) if isinstance(value, bytearray) else value


def same(rows, others):
    """Whether two lists have the same rows, in any order."""
    return sorted(map(repr, map(plain, rows))) == sorted(map(repr, map(plain, others)))
