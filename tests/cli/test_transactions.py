"""`kohort transactions` on a transaction that really hangs: its coordinator never knew of it."""

from pathlib import Path

import pytest

from cli.running import Outcome
from cli.served import Serve
from kohort.cli import app
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.protocol import batches
from kohort.protocol.batches import Record
from kohort.types import Timestamp, TopicPartition

ORDERS = TopicPartition("orders", 0)
LONG_AGO = Timestamp(1_700_000_000_000)


def append_hanging(data: Path) -> None:
    """Append a transactional batch while there is no server to verify it."""
    directory = LocalDirectory(data)
    log = directory.open(ORDERS, LogConfig())
    batch = batches.build(
        [Record(None, b"hanging", (), LONG_AGO)],
        producer_id=4_000,
        producer_epoch=7,
        base_sequence=0,
        attributes=batches.TRANSACTIONAL,
    )
    guard = log.begin_verification(4_000, 7, 0, LONG_AGO, tv2=False)
    log.append(batch, LONG_AGO, verified=guard)
    directory.close()


def test_a_hanging_transaction_is_found_and_aborted(
    serve: Serve, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def call(*words: str) -> Outcome:
        capfd.readouterr()
        return Outcome(app.run(words), *capfd.readouterr())

    (tmp_path / "lines").write_text("before\n")
    data = tmp_path / "data"
    with serve("--data", str(data)) as first:
        sent = ("-t", "orders", "-p", "0", "-l", str(tmp_path / "lines"))
        assert call("produce", "-b", first.address, *sent).exit_code == 0
    append_hanging(data)
    with serve("--data", str(data)) as server:
        bootstrap = ("-b", server.address)
        read = ("consume", *bootstrap, "-t", "orders", "-e", "-q")
        committed = (*read, "-X", "isolation.level=read_committed")
        assert call("produce", *bootstrap, *sent).exit_code == 0
        assert call(*committed).output == "before\n"
        search = ("transactions", "find-hanging", *bootstrap, "--topic", "orders")
        (found,) = call(*search, "--output", "json").json
        assert (found["producer_id"], found["producer_epoch"]) == (4_000, 7)
        start = str(found["transaction_start_offset"])
        partition = ("--topic", "orders", "--partition", "0")
        aborted = call("transactions", "abort", *bootstrap, *partition, "--start-offset", start)
        assert aborted.exit_code == 0
        assert call(*search, "--output", "json").json == []
        assert call(*committed).output == "before\nbefore\n"
        assert call(*read, "-X", "isolation.level=read_uncommitted").output.count("\n") == 3
