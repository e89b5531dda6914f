"""`kohort repair`: shows, and changes nothing; with --execute it cuts, and keeps."""

import pytest

from kohort.cli.app import run
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.protocol import batches
from kohort.protocol.batches import Record
from kohort.types import Timestamp, TopicPartition

NOW = Timestamp(1_700_000_000_000)


@pytest.fixture
def data(tmp_path):
    directory = LocalDirectory(tmp_path / "data")
    for partition in (0, 1):
        log = directory.open(TopicPartition("orders", partition), LogConfig())
        for _ in range(10):
            log.append(batches.build([Record(None, bytes(50), (), NOW)]), NOW)
    directory.close()
    return tmp_path / "data"


@pytest.fixture
def damaged(data):
    stored = data / "orders-1" / f"{0:020}.log"
    content = bytearray(stored.read_bytes())
    content[4 * len(content) // 10 + 80] ^= 1
    stored.write_bytes(content)
    return data


def test_repair_of_an_undamaged_directory_prints_nothing(data, capsys):
    assert run(["repair", str(data)]) == 0
    assert capsys.readouterr().out == ""


def test_the_logs_of_all_workers_are_looked_at(damaged, capsys):
    (damaged / "kohort.properties").write_text("version=2\nworkers=2\ncluster.id=c\n")
    LocalDirectory(damaged / "worker1").close()
    (damaged / "orders-1").rename(damaged / "worker1" / "orders-1")
    assert run(["repair", str(damaged)]) == 3
    assert run(["repair", str(damaged), "--execute"]) == 0
    assert run(["repair", str(damaged), "orders-1"]) == 0
    using = LocalDirectory(damaged / "worker1")
    assert run(["repair", str(damaged)]) == 2
    using.close()


def test_repair_shows_the_damage_and_then_cuts(damaged, capsys):
    stored = damaged / "orders-1" / f"{0:020}.log"
    before = stored.read_bytes()
    assert run(["repair", str(damaged)]) == 3
    shown = capsys.readouterr().out
    for told in ("orders-1", "offset 4", "5 whole batches after"):
        assert told in shown
    assert "offsets 4 to 9" in shown
    assert stored.read_bytes() == before
    assert run(["repair", str(damaged), "orders-0"]) == 0
    assert run(["repair", str(damaged), "orders-1", "--execute"]) == 0
    (kept,) = (damaged / "orders-1").glob("*.cut")
    assert str(kept) in capsys.readouterr().out
    assert stored.read_bytes() + kept.read_bytes() == before
    assert run(["repair", str(damaged)]) == 0
    directory = LocalDirectory(damaged)
    assert directory.open(TopicPartition("orders", 1), LogConfig()).end_offset == 4
    directory.close()


def test_repair_is_refused_while_a_server_has_the_directory(damaged, capsys):
    directory = LocalDirectory(damaged)
    assert run(["repair", str(damaged), "--execute"]) == 2
    assert "is in use by process" in capsys.readouterr().err
    directory.close()


def test_other_directories_and_unknown_partitions_are_refused(data, tmp_path, capsys):
    assert run(["repair", str(tmp_path / "other")]) == 2
    assert run(["repair", str(data), "order-0"]) == 2
    assert "did you mean orders-0?" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_a_log_that_cannot_be_read_fails_and_the_others_are_checked(damaged, capsys, monkeypatch):
    from kohort.log import repair

    examine = repair.examine

    def failing(path):
        if path.endswith("orders-0"):
            raise OSError(5, "Input/output error")
        return examine(path)

    monkeypatch.setattr(repair, "examine", failing)
    assert run(["repair", str(damaged)]) == 1
    told = capsys.readouterr()
    assert "Input/output error" in told.err
    assert "orders-1" in told.out


def damage(data, name, *batches_in_order, of=10):
    """Flip a bit in each of these batches."""
    stored = data / name / f"{0:020}.log"
    content = bytearray(stored.read_bytes())
    for at in batches_in_order:
        content[at * len(content) // of + 80] ^= 1
    stored.write_bytes(content)
    return bytes(content)


def offsets_in(data, name="orders"):
    directory = LocalDirectory(data)
    log = directory.open(TopicPartition(name, 1 if name == "orders" else 0), LogConfig())
    try:
        offset, found = 0, []
        while offset < log.end_offset:
            content = bytes(log.read(offset, 1 << 20))
            for position, header in batches.iterate(content):
                found += [each.offset for each in batches.decode_records(content, position)]
                offset = header.last_offset + 1
        return found
    finally:
        directory.close()


@pytest.mark.parametrize("option", [(), ("--keep-rest",), ("--keep-rest", "--execute")])
def test_a_log_without_records_is_whole(tmp_path, capsys, option):
    directory = LocalDirectory(tmp_path)
    directory.open(TopicPartition("orders", 0), LogConfig())
    directory.close()
    assert run(["repair", str(tmp_path), *option]) == 0
    assert capsys.readouterr() == ("", "")


def test_keep_rest_cuts_only_the_damaged_batches(data, capsys):
    before = damage(data, "orders-1", 2, 3, 6)
    stored = data / "orders-1" / f"{0:020}.log"
    assert run(["repair", str(data), "--keep-rest"]) == 3
    shown = capsys.readouterr().out
    assert "hole of the offsets 2 to 3" in shown
    assert "hole of the offsets 6 to 6" in shown
    assert stored.read_bytes() == before
    assert run(["repair", str(data), "--keep-rest", "--execute"]) == 0
    assert "the records after the damage are served" in capsys.readouterr().out
    size = len(before) // 10
    kept = sorted((data / "orders-1").glob("*.cut"), key=lambda path: path.stat().st_size)
    assert [path.read_bytes() for path in kept] == [
        before[6 * size : 7 * size],
        before[2 * size : 4 * size],
    ]
    assert run(["repair", str(data)]) == 0
    assert offsets_in(data) == [0, 1, 4, 5, 7, 8, 9]


def test_damage_at_the_end_is_cut_all_the_same(data, capsys):
    damage(data, "orders-1", 2, 9)
    (data / "orders-1" / "checkpoint").write_text("recovery_point 10\n")
    assert run(["repair", str(data), "--keep-rest", "--execute"]) == 0
    assert "the log ends at offset 9" in capsys.readouterr().out
    assert offsets_in(data) == [0, 1, 3, 4, 5, 6, 7, 8]


def test_the_rest_of_the_metadata_is_not_kept(data, capsys):
    (data / "orders-1").rename(data / "__cluster_metadata-0")
    before = damage(data, "__cluster_metadata-0", 2)
    assert run(["repair", str(data), "--keep-rest", "--execute"]) == 3
    assert "Restore this directory from a copy" in capsys.readouterr().out
    assert (data / "__cluster_metadata-0" / f"{0:020}.log").read_bytes() == before


def test_repair_shows_what_a_hole_means_for_groups(data, capsys):
    (data / "orders-1").rename(data / "__consumer_offsets-0")
    (data / "__consumer_offsets-0" / "checkpoint").unlink()  # which names the log
    damage(data, "__consumer_offsets-0", 2)
    assert run(["repair", str(data), "--keep-rest"]) == 3
    assert "continues from its latest commit outside of the hole" in capsys.readouterr().out
    assert run(["repair", str(data), "--keep-rest", "--execute"]) == 0
    assert offsets_in(data, "__consumer_offsets") == [0, 1, 3, 4, 5, 6, 7, 8, 9]
