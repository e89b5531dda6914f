"""`spark.dataSource.register(KohortDataSource)`: Kafka topics as `.format("kohort")`.

Spark creates these objects in several processes and pickles them, so none connects before it has to
plan or to read. Modules that only some queries need are imported when they are needed: a stream
begins with a process that imports this.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from kohort.errors import ConfigError
from kohort.spark.batch import BatchReader
from kohort.spark.error_messages import cause_first
from kohort.spark.logs import log_to_stderr
from kohort.spark.options import GroupMode, ReadOptions, parse_either_read, parse_read
from kohort.spark.read_schema import columns_of, validate_read_schema
from kohort.spark.unsupported_options import log_ignored

if TYPE_CHECKING:
    from kohort.spark.write_options import WriteOptions
    from kohort.spark.writing import Writing


@cause_first
class KohortDataSource(DataSource):
    """Reads and writes Kafka topics with the columns and options of Spark's Kafka connector."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._logged: frozenset[str] = frozenset()
        """Ignored options that were logged already: Spark pickles this object between its calls."""

    @classmethod
    def name(cls) -> str:
        return "kohort"

    def schema(self) -> StructType:
        """The columns of a read. `load()` asks for them, so options are refused and logged here."""
        options = _with_valid_group(parse_either_read(self.options))
        self._log_ignored(options)
        return columns_of(options)

    def reader(self, schema: StructType) -> DataSourceReader:
        if not self.options:
            raise ConfigError(
                "a table of a catalog: PySpark gives its options to no Python data source. Read it "
                "with them (SELECT … FROM t WITH ('subscribe' = …, …)), or create a temporary view "
                "(CREATE TEMPORARY VIEW … USING kohort OPTIONS (…))"
            )
        options = parse_read(self.options, streaming=False)
        validate_read_schema(schema, options)
        self._log_ignored(options)
        if options.paths:
            from kohort.spark.files import FileReader

            return FileReader(options)
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        log_to_stderr()
        _validate_version((4, 2), "a streaming read")
        options = _with_valid_group(parse_read(self.options, streaming=True))
        validate_read_schema(schema, options)
        self._log_ignored(options)
        if options.group_mode is GroupMode.MEMBER:
            from kohort.spark.member_stream import MemberStreamReader

            return MemberStreamReader(options)
        from kohort.spark.stream import StreamReader

        return StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise ConfigError("mode overwrite: a topic can only be appended to; use mode append")
        from kohort.spark.bootstrap_check import validate_listening
        from kohort.spark.writing import BatchWriter

        writing = self._writing(schema)
        validate_listening(writing.options.servers)
        return BatchWriter(writing)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        _validate_version((4, 1), "a streaming write")
        from kohort.spark.stream_writing import StreamWriter

        # Rows are appended in every output mode, as by Spark's own sink.
        writing = self._writing(schema)
        if (sink := writing.options.transactional_id) is not None:
            from kohort.spark.sink_offsets import plan_token

            writing = replace(writing, plan_token=plan_token(sink))
        return StreamWriter(writing)

    def _writing(self, schema: StructType) -> "Writing":
        from kohort.spark.row_spool import SpoolDirectory
        from kohort.spark.write_options import parse_write
        from kohort.spark.write_schema import written_columns
        from kohort.spark.writing import Writing

        options = parse_write(self.options)
        self._log_ignored(options)
        return Writing(options, written_columns(schema, options), SpoolDirectory())

    def _log_ignored(self, options: "ReadOptions | WriteOptions") -> None:
        log_ignored({name: why for name, why in options.without_effect if name not in self._logged})
        self._logged |= dict(options.without_effect).keys()


def _validate_version(least: tuple[int, int], feature: str) -> None:
    """Raise ConfigError if this PySpark is older than `least`."""
    if tuple(map(int, pyspark.__version__.split(".")[:2])) < least:
        raise ConfigError(
            f"{feature} needs PySpark {least[0]}.{least[1]} or later, and this is "
            f"{pyspark.__version__}, which can read and write batches"
        )


def _with_valid_group(options: ReadOptions) -> ReadOptions:
    """`options`. Raises ConfigError if a member cannot have them."""
    if options.group_mode is GroupMode.MEMBER:
        from kohort.spark.membership import validate_group

        validate_group(options)
    return options
