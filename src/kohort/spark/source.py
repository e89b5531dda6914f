"""`spark.dataSource.register(KohortDataSource)`: Kafka topics as `.format("kohort")`.

Spark creates these objects in several processes and pickles them, so none connects before it has to
plan or to read. Modules that only some queries need are imported when they are needed: a stream
begins with a process that imports this.
"""

from typing import TYPE_CHECKING

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
from kohort.spark.logs import log_to_stderr
from kohort.spark.options import GroupMode, parse_read
from kohort.spark.schema import read_schema, validate_read_schema
from kohort.spark.stream import StreamReader

if TYPE_CHECKING:
    from kohort.spark.writing import Writing


class KohortDataSource(DataSource):
    """Reads and writes Kafka topics with the columns and options of Spark's Kafka connector."""

    @classmethod
    def name(cls) -> str:
        return "kohort"

    def schema(self) -> StructType:
        return read_schema(
            include_headers=self.options.get("includeHeaders", "false").lower() == "true"
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse_read(self.options, streaming=False)
        validate_read_schema(schema, options)
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        log_to_stderr()
        options = parse_read(self.options, streaming=True)
        validate_read_schema(schema, options)
        if options.group_mode is GroupMode.MEMBER:
            from kohort.spark.member_stream import MemberStreamReader
            from kohort.spark.membership import validate_group

            validate_group(options)
            return MemberStreamReader(options)
        return StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise ConfigError("mode overwrite: a topic can only be appended to; use mode append")
        from kohort.spark.writing import BatchWriter

        return BatchWriter(self._writing(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        from kohort.spark.writing import StreamWriter

        # Whatever the output mode, the rows that Spark hands over are appended, as by its own sink.
        return StreamWriter(self._writing(schema))

    def _writing(self, schema: StructType) -> "Writing":
        from kohort.spark.row_spool import SpoolDirectory
        from kohort.spark.write_options import parse_write
        from kohort.spark.write_schema import written_columns
        from kohort.spark.writing import Writing

        options = parse_write(self.options)
        return Writing(options, written_columns(schema, options), SpoolDirectory())
