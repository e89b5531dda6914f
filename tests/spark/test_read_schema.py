"""The columns that a read gives and a write takes: those of Spark's Kafka source and sink. No
session is needed.
"""

import json

import pytest
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructField, StructType

from kohort.columnar import record_schema
from kohort.errors import ConfigError
from kohort.spark.read_schema import read_schema
from kohort.spark.write_options import parse_write
from kohort.spark.write_schema import written_columns

READ = {
    "key": "binary", "value": "binary", "topic": "string", "partition": "integer", "offset": "long",
    "timestamp": "timestamp", "timestampType": "integer",
}  # fmt: skip


def headers(*, key_is_nullable=True):
    return ArrayType(
        StructType(
            [StructField("key", StringType(), key_is_nullable), StructField("value", BinaryType())]
        )
    )


def schema(types):
    found = StructType()
    for name, of in types.items():
        found.add(name, of)
    return found


def written(types, **options):
    given = {"kafka.bootstrap.servers": "localhost:9092", "topic": "orders"} | options
    chosen = parse_write({name: value for name, value in given.items() if value is not None})
    return written_columns(schema(types), chosen)


@pytest.mark.parametrize(
    ("include_headers", "types"), [(False, READ), (True, READ | {"headers": headers()})]
)
def test_a_read_has_the_columns_of_sparks_source(include_headers, types):
    found = read_schema(include_headers=include_headers)
    assert found == schema(types)
    assert "false" not in json.dumps(found.jsonValue()), "all may be null, as there"


def test_batch_fields_are_the_columns_that_decoding_gives():
    """By their names, types and order, behind the headers."""
    from pyspark.sql.pandas.types import to_arrow_schema

    found = read_schema(include_headers=True, include_batch_fields=True)
    expected = record_schema(include_headers=True, include_batch_fields=True)
    assert to_arrow_schema(found, timezone="UTC").equals(expected)
    assert "false" not in json.dumps(found.jsonValue())


TEXT = {"value": "string"}


class TestWriting:
    def test_the_columns_of_a_read_can_be_written(self):
        assert written(READ | {"headers": headers()}) == (
            "key",
            "value",
            "partition",
            "headers",
        )

    def test_times_are_written_if_that_is_said(self):
        times = TEXT | {"timestamp": "timestamp"}
        assert written(times) == ("value",)
        assert written(times, includeTimestamp="false") == ("value",)
        assert written(times, includeTimestamp="true") == ("value", "timestamp")

    def test_the_option_topic_counts_more_than_the_column(self):
        assert written(TEXT | {"topic": "string"}) == ("value",)
        assert written(TEXT | {"topic": "string"}, topic=None) == ("value", "topic")

    def test_headers_are_written_if_they_are_there(self):
        assert written(TEXT | {"headers": headers()}) == ("value", "headers")
        assert written(TEXT | {"headers": headers()}, includeHeaders="false") == ("value",)

    def test_columns_that_cannot_be_null_are_written(self):
        assert written(TEXT | {"headers": headers(key_is_nullable=False)}) == ("value", "headers")

    def test_other_columns_are_left_out(self):
        assert written(TEXT | {"offset": "long", "note": "string", "Key": "string"}) == ("value",)

    @pytest.mark.parametrize(
        ("types", "options", "says"),
        [
            ({"key": "string", "n": "long"}, {}, "column value is missing, .* columns are key, n"),
            (TEXT, {"topic": None}, "set the option topic, or add a column topic"),
            (
                TEXT | {"topic": "binary"},
                {"topic": None},
                "column topic is binary; cast it to string",
            ),
            ({"value": "integer"}, {}, "column value is int; cast it to string or binary"),
            (TEXT | {"key": "date"}, {}, "column key is date; cast it to string or binary"),
            (TEXT | {"partition": "long"}, {}, "column partition is bigint; cast it to int"),
            (
                TEXT | {"timestamp": "long"},
                {"includeTimestamp": "true"},
                "column timestamp is bigint; cast it to timestamp",
            ),
            (TEXT, {"includeTimestamp": "true"}, "there is no column timestamp"),
            (
                TEXT | {"headers": MapType(StringType(), BinaryType())},
                {},
                "cast it to array<struct<key:string,value:",
            ),
            (
                TEXT,
                {"includeHeaders": "true"},
                "includeHeaders is true, and there is no column headers",
            ),
        ],
    )
    def test_missing_and_mistyped_columns_are_refused(self, types, options, says):
        with pytest.raises(ConfigError, match=says):
            written(types, **options)
