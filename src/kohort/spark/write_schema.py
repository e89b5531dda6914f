"""The columns of a write: those of Spark's Kafka sink, and `timestamp` if wanted.

Others are ignored.
"""

from typing import Final

from pyspark.sql.types import DataType, StructType

from kohort.errors import ConfigError
from kohort.spark.schema import HEADERS
from kohort.spark.write_options import WriteOptions

_TEXT: Final = ("string", "binary")
_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "key": _TEXT,
    "value": _TEXT,
    "topic": ("string",),
    "partition": ("int",),
    "headers": (HEADERS.simpleString(),),
    "timestamp": ("timestamp",),
}


def written_columns(schema: StructType, options: WriteOptions) -> tuple[str, ...]:
    """The names of the columns to write.

    Raises ConfigError, which says what is missing and what to do.
    """
    given = {field.name: field.dataType for field in schema.fields}
    if "value" not in given:
        raise ConfigError(
            "column value is missing, which every record has; the columns are "
            f"{', '.join(given) or 'none'}"
        )
    if options.topic is None and "topic" not in given:
        raise ConfigError(
            "neither option topic is set nor is there a column topic: one of them says where "
            "rows go"
        )
    if options.headers and "headers" not in given:
        raise ConfigError("option includeHeaders is true, and there is no column headers")
    if options.timestamps and "timestamp" not in given:
        raise ConfigError("option includeTimestamp is true, and there is no column timestamp")
    left_out = {"topic"} if options.topic is not None else set()
    if not options.timestamps:
        left_out.add("timestamp")
    if options.headers is False:
        left_out.add("headers")
    chosen = tuple(name for name in _TYPES if name in given and name not in left_out)
    for name in chosen:
        _validate_type(name, given[name])
    return chosen


def _validate_type(name: str, given: DataType) -> None:
    expected = _TYPES[name]
    if given.simpleString() not in expected:
        raise ConfigError(
            f"column {name} is {given.simpleString()}; cast it to {' or '.join(expected)}"
        )
