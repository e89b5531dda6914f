"""The columns of a write: those of Spark's Kafka sink, and optionally `timestamp`.

Others are ignored.
"""

from typing import Final

from pyspark.sql.types import DataType, StructType

from kohort.errors import ConfigError
from kohort.spark.read_schema import HEADERS
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

    Raises ConfigError, which names the missing column and the remedy.
    """
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise ConfigError(
            "column value is missing, which every record has; the columns are "
            f"{', '.join(types) or 'none'}"
        )
    if options.topic is None and "topic" not in types:
        raise ConfigError("rows have no topic: set the option topic, or add a column topic")
    if options.headers and "headers" not in types:
        raise ConfigError("option includeHeaders is true, and there is no column headers")
    if options.timestamps and "timestamp" not in types:
        raise ConfigError("option includeTimestamp is true, and there is no column timestamp")
    left_out = {"topic"} if options.topic is not None else set()
    if not options.timestamps:
        left_out.add("timestamp")
    if options.headers is False:
        left_out.add("headers")
    chosen = tuple(name for name in _TYPES if name in types and name not in left_out)
    for name in chosen:
        _validate_type(name, types[name])
    return chosen


def _validate_type(name: str, data_type: DataType) -> None:
    expected = _TYPES[name]
    if data_type.simpleString() not in expected:
        raise ConfigError(
            f"column {name} is {data_type.simpleString()}; cast it to {' or '.join(expected)}"
        )
