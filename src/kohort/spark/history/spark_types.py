"""Arrow schemas in Spark's types."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def to_spark(schema: Any) -> "StructType":
    """An Arrow schema in Spark's types."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
