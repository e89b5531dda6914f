"""Apache Kafka's own tool reads the files of a log: batches of every codec, compacted or not, and
the index.
"""

import asyncio
import subprocess

import pytest

from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.protocol import batches
from kohort.protocol.batches import Codec, Record
from peers import kafka

from .conftest import NOW, ORDERS

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def libs():
    if (reason := kafka.missing_tools()) is not None:
        pytest.skip(reason)
    try:
        return kafka.resolve()
    except kafka.KafkaUnavailableError as error:
        pytest.skip(str(error))


def dump(libs, *arguments):
    command = [
        "java",
        "-cp",
        f"{libs}/*",
        "-Xmx128m",
        "org.apache.kafka.tools.DumpLogSegments",
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_dump_log_segments(data, libs):
    config = LogConfig(
        cleanup_policy=frozenset({"compact"}), segment_bytes=20_000, index_interval_bytes=500
    )
    directory = LocalDirectory(data)
    log = directory.open(ORDERS, config)
    for at in range(500):
        content = [
            Record(
                b"k%d" % (at % 300), None if at % 9 == 0 else b"v" * 30, (("h", b"1"),), NOW + at
            ),
            Record(b"z%d" % (at % 3), b"x", (), NOW + at),
        ]
        batch = batches.build(
            content, codec=Codec(at % 5), producer_id=5, producer_epoch=0, base_sequence=2 * at
        )
        log.append(batch, NOW)
    assert asyncio.run(log.compact(NOW))
    directory.close()
    path = data / "orders-0"

    logs, indexes = (
        ",".join(map(str, sorted(path.glob(pattern)))) for pattern in ("*.log", "*.index")
    )
    found = dump(libs, "--files", logs, "--deep-iteration")
    assert "isvalid: true" in found
    assert "isvalid: false" not in found
    for codec in Codec:
        assert f"compresscodec: {codec.name.lower()}" in found
    assert f"deleteHorizonMs: OptionalLong[{NOW + config.delete_retention_ms}]" in found
    assert "count: 1 " in found, "batches that compaction thinned out"
    assert f"lastOffset: {2 * 500 - 1} " in found
    assert (
        dump(libs, "--files", indexes, "--index-sanity-check").count("passed sanity check")
        == indexes.count(",") + 1
    )
