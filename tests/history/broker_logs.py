"""Logs of groups as a broker has them, read without a Spark session, and histories of them."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from history.built import build_logs
from kohort.client.admin import Admin
from kohort.history.schema import RECORDS
from kohort.log.partition_mark import base64_id
from kohort.spark.batch import BatchReader
from kohort.spark.history.sources import broker_options
from kohort.spark.options import parse_read

LOG = "__consumer_offsets"


def by_broker(source: str | Mapping[str, str]) -> dict[int, pa.Table]:
    """The records of each log partition, as Spark's tasks read them.

    `source`: bootstrap servers, or options of a client.
    """
    kafka = {"bootstrap.servers": source} if isinstance(source, str) else source
    reader = BatchReader(parse_read(broker_options(kafka), streaming=False))
    tables: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    for partition in reader.partitions():
        for batch in reader.read(partition):
            rows = batch.select(RECORDS.names).cast(RECORDS)
            tables[rows["partition"][0].as_py()].append(rows)
    return {number: pa.Table.from_batches(batches) for number, batches in tables.items()}


async def build_from_broker(admin: Admin, address: str, directory: Path) -> None:
    """Build the history of the cluster at `address`, which `admin` administers."""
    metadata = await admin.cluster.metadata([LOG])
    topic_id = metadata.topics[LOG].id
    build_logs(
        by_broker(address),
        directory,
        cluster=metadata.cluster_id,
        topic_id=None if topic_id is None else base64_id(topic_id),
    )
