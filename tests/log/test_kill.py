"""Appends that were acknowledged survive a SIGKILL of the process that made them."""

import signal
import subprocess
import sys
import time

import pytest

from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.recovery import LastEnd

from .conftest import ORDERS, batch, from_producer, records_of

APPENDER = """
import asyncio, sys
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.protocol import batches
from kohort.protocol.batches import Record
from kohort.types import TopicPartition

NOW = 1_700_000_000_000

async def main(path, durability, policy):
    config = LogConfig(
        segment_bytes=20_000, index_interval_bytes=500, cleanup_policy=frozenset({policy})
    )
    log = LocalDirectory(path, durability=durability).open(TopicPartition("orders", 0), config)
    at = 0
    while True:
        content = [Record(b"k%d" % (at % 50), b"%d" % at, (), NOW + at)]
        batch = batches.build(content, producer_id=1, producer_epoch=0, base_sequence=at)
        log.append(batch, NOW)
        if durability == "fsync":
            await log.durable()
        sys.stdout.write(f"{at}\\n")
        sys.stdout.flush()
        if at % 500 == 499 and policy == "compact":
            asyncio.ensure_future(log.compact(NOW))
        if at % 20 == 0:
            await asyncio.sleep(0)
        at += 1

asyncio.run(main(*sys.argv[1:]))
"""


def kill_after(lines, data, durability, policy):
    """Run the appender, kill it after so many acknowledged offsets, return the last offset it
    printed whole.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", APPENDER, str(data), durability, policy],
        stdout=subprocess.PIPE,
        text=True,
    )
    printed = -1
    try:
        for line in process.stdout:
            printed = int(line)
            if printed >= lines:
                break
        time.sleep(0.005 * (lines % 3))  # not always at the same step
    finally:
        process.send_signal(signal.SIGKILL)
    # What was printed and not read yet was acknowledged too.
    for line in process.stdout:
        if line.endswith("\n"):
            printed = int(line)
    process.wait()
    return printed


RUNS = [
    ("os", "delete", 1_000),
    ("os", "delete", 3_001),
    ("os", "compact", 2_600),
    ("os", "compact", 4_001),
    ("fsync", "delete", 60),
]


@pytest.mark.parametrize(("durability", "policy", "lines"), RUNS)
def test_every_acknowledged_append_survives_a_kill(data, durability, policy, lines):
    acknowledged = kill_after(lines, data, durability, policy)
    directory = LocalDirectory(data)
    assert directory.last_end is LastEnd.KILLED
    config = LogConfig(
        segment_bytes=20_000, index_interval_bytes=500, cleanup_policy=frozenset({policy})
    )
    log = directory.open(ORDERS, config)
    found = records_of(log)
    assert log.end_offset > acknowledged >= lines
    if policy == "delete":
        assert [record.value for record in found] == [b"%d" % at for at in range(log.end_offset)]
    else:
        # of each key at least the last record that was acknowledged
        latest = {record.key: int(record.value) for record in found}
        assert latest == {
            b"k%d" % (at % 50): at for at in range(log.end_offset - 50, log.end_offset)
        }
    # the producer is known: its last batch is a duplicate, the next one is not
    last = log.end_offset - 1
    assert log.append(from_producer(1, 0, last), 0).base_offset == last
    assert log.append(from_producer(1, 0, last + 1), 0).base_offset == last + 1
    assert log.append(batch(b"next"), 0).base_offset == last + 2
    directory.close()
