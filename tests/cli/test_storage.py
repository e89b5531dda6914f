"""`kohort storage`: copies between directories and databases, and checks of both."""

from contextlib import closing
from pathlib import Path

import pytest

from cli.running import Outcome, Run, runner
from kohort.log.base import LogConfig
from kohort.log.directory_format import FORMAT_FILE
from kohort.log.local import LocalDirectory
from kohort.log.worker_directories import spread
from kohort.protocol import batches
from kohort.protocol.batches import Record
from kohort.server.config import Config
from kohort.server.controller import open_controller
from kohort.storage.postgres.logs.copy import PostgresTarget
from kohort.types import Timestamp, TopicPartition
from peers.postgres import Postgres

NOW = Timestamp(1_700_000_000_000)
ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def storage(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `kohort storage`."""
    run = runner(capsys)
    return lambda *words: run("storage", *words)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with the metadata log and two others."""
    make(tmp_path / "data")
    return tmp_path / "data"


NO_PLACES = (
    "", "mysql://me:secret@h/d", "postgresql:/me:secret@h/d", "PostgreSQL://h/d", "postgres:d",
    "file:///data",
)  # fmt: skip
"""What is neither a directory nor the URL of a database."""


def make(path: Path) -> None:
    with closing(LocalDirectory(path)) as directory:
        controller = open_controller(directory, Config({"storage": "memory"}), lambda: NOW)
        for log in controller.topics.create("orders", 2).partitions:
            for _ in range(20):
                log.append(batches.build([Record(None, bytes(50), (), NOW)]), NOW)
        controller.writer.flush()
        controller.close()


def copy(storage: Run, source: object, target: object, *more: str) -> Outcome:
    return storage("copy", "--from", str(source), "--to", str(target), *more)


class TestCopy:
    def test_a_directory_is_copied_to_a_database_and_back(
        self, storage: Run, data: Path, database: str, tmp_path: Path
    ) -> None:
        done = copy(storage, data, database)
        assert (done.exit_code, done.stderr) == (0, "")
        assert "copied 3 partitions" in done.output
        assert "verified: both places have the same 3 partitions" in done.output
        assert copy(storage, database, tmp_path / "back").exit_code == 0
        log = f"{ORDERS}/{0:020}.log"
        assert (tmp_path / "back" / log).read_bytes() == (data / log).read_bytes()
        assert (tmp_path / "back" / FORMAT_FILE).read_bytes() == (data / FORMAT_FILE).read_bytes()

    def test_verify_only_compares_without_copying(
        self, storage: Run, data: Path, tmp_path: Path
    ) -> None:
        assert copy(storage, data, tmp_path / "copy").exit_code == 0
        done = copy(storage, data, tmp_path / "copy", "--verify-only")
        assert done.exit_code == 0
        assert "copied" not in done.output
        with closing(LocalDirectory(data)) as directory:
            directory.open(ORDERS, LogConfig()).trim(3)
        done = copy(storage, data, tmp_path / "copy", "--verify-only")
        assert done.exit_code == 3
        assert "orders-0 differs: start_offset" in done.output

    def test_data_in_the_target_is_refused(self, storage: Run, data: Path, database: str) -> None:
        done = copy(storage, data, data)
        assert done.exit_code == 2
        copy(storage, data, database)
        done = copy(storage, data, database)
        assert done.exit_code == 2
        assert "the tables have data" in done.stderr

    def test_a_source_that_is_none(self, storage: Run, database: str, tmp_path: Path) -> None:
        for source in (tmp_path / "nothing", database):
            assert copy(storage, source, tmp_path / "copy").exit_code == 2
        assert not (tmp_path / "nothing").exists()

    def test_directories_of_several_workers_are_copied(
        self, storage: Run, data: Path, database: str, tmp_path: Path
    ) -> None:
        spread(data, 3, lambda partition: partition.partition)
        done = copy(storage, data, database)
        assert (done.exit_code, done.stderr) == (0, "")
        assert "verified: both places have the same 3 partitions" in done.output
        assert copy(storage, database, tmp_path / "back").exit_code == 0
        assert copy(storage, tmp_path / "back", data, "--verify-only").exit_code == 0

    def test_a_worker_whose_directory_is_missing(
        self, storage: Run, data: Path, tmp_path: Path
    ) -> None:
        spread(data, 3, lambda partition: partition.partition)
        (data / "worker1").rename(tmp_path / "elsewhere")
        for done in (
            copy(storage, data, tmp_path / "copy"),
            storage("check", "--storage", str(data)),
        ):
            assert done.exit_code in (1, 2)
            assert "worker1 is missing" in done.output + done.stderr

    def test_a_copy_is_refused_while_a_server_runs(
        self, storage: Run, data: Path, tmp_path: Path
    ) -> None:
        with closing(LocalDirectory(data)):
            done = copy(storage, data, tmp_path / "copy")
        assert done.exit_code == 2
        assert "is in use by process" in done.stderr

    def test_a_copy_is_refused_after_a_crash_of_the_machine(
        self, storage: Run, data: Path, tmp_path: Path
    ) -> None:
        (data / ".clean-shutdown").unlink()
        (data / ".lock").write_text("1\nan earlier start of the machine")
        done = copy(storage, data, tmp_path / "copy")
        assert done.exit_code == 2
        assert "start and stop the server once" in done.stderr

    def test_damage_ends_a_copy(self, storage: Run, data: Path, tmp_path: Path) -> None:
        damage(data)
        done = copy(storage, data, tmp_path / "copy")
        assert done.exit_code == 1
        assert "is damaged at byte" in done.stderr
        assert not (tmp_path / "copy").exists()

    def test_a_database_that_takes_no_more(
        self, storage: Run, data: Path, database: str, postgres: Postgres
    ) -> None:
        PostgresTarget(database).close()
        batches_of = f"alter table {database.rpartition('=')[2]}.batches"
        postgres.execute(f"{batches_of} add constraint full_disk check (false)")
        done = copy(storage, data, database)
        assert done.exit_code == 1
        assert done.stderr.startswith("kohort: PostgreSQL: new row")
        assert "was not completed" in storage("check", "--storage", database).output
        postgres.execute(f"{batches_of} drop constraint full_disk")
        assert copy(storage, data, database).exit_code == 0

    def test_a_schema_that_does_not_exist(
        self, storage: Run, data: Path, postgres: Postgres
    ) -> None:
        done = copy(storage, data, f"{postgres.url}?search_path=nothing")
        assert done.exit_code == 2
        assert "no schema of the search_path exists" in done.stderr

    @pytest.mark.parametrize("place", NO_PLACES)
    def test_a_place_that_is_none(
        self, storage: Run, data: Path, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for source, target in ((data, place), (place, tmp_path / "copy")):
            done = copy(storage, source, target)
            assert done.exit_code == 2
            assert "is neither a directory nor postgresql://…" in done.stderr
            assert "secret" not in done.stderr
        assert [each.name for each in tmp_path.iterdir()] == ["data"]

    def test_a_directory_that_looks_like_a_url(
        self, storage: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert copy(storage, data, "./mysql:/copy").exit_code == 0
        assert storage("check", "--storage", "./mysql:/copy").exit_code == 0

    def test_the_password_is_not_shown(self, storage: Run, tmp_path: Path) -> None:
        done = copy(storage, "postgresql://me:secret@127.0.0.1:1/db", tmp_path / "copy")
        assert done.exit_code == 2
        assert "127.0.0.1:1/db" in done.stderr
        assert "secret" not in done.stderr


def damage(data: Path) -> None:
    path = data / str(ORDERS) / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)


class TestCheckOfADirectory:
    def test_a_usable_directory_passes_unchanged(self, storage: Run, data: Path) -> None:
        before = sorted((each, each.stat().st_mtime_ns) for each in data.rglob("*"))
        done = storage("check", "--storage", str(data))
        assert done.exit_code == 0
        assert "ok       logs: none of 3 is damaged" in done.output
        assert sorted((each, each.stat().st_mtime_ns) for each in data.rglob("*")) == before

    def test_damage_of_a_directory_is_a_problem(self, storage: Run, data: Path) -> None:
        damage(data)
        done = storage("check", "--storage", str(data))
        assert done.exit_code == 1
        assert "problem  log: " in done.output

    def test_directories_of_several_workers_are_checked(self, storage: Run, data: Path) -> None:
        spread(data, 2, lambda partition: int(partition == ORDERS))
        assert storage("check", "--storage", str(data)).exit_code == 0
        damage(data / "worker1")
        done = storage("check", "--storage", str(data))
        assert done.exit_code == 1
        assert f"see kohort repair {data} {ORDERS}" in done.output

    def test_a_directory_in_use_is_refused(self, storage: Run, data: Path) -> None:
        with closing(LocalDirectory(data)):
            done = storage("check", "--storage", str(data))
        assert done.exit_code == 3
        assert "is in use by process" in done.output

    def test_a_missing_directory_is_refused(self, storage: Run, tmp_path: Path) -> None:
        done = storage("check", "--storage", str(tmp_path / "nothing"))
        assert (done.exit_code, done.output) == (2, "")
        assert done.stderr == f"kohort: {tmp_path / 'nothing'}: No such file or directory\n"
        (tmp_path / "file").touch()
        done = storage("check", "--storage", str(tmp_path / "file"))
        assert (done.exit_code, done.output) == (2, "")
        assert done.stderr == f"kohort: {tmp_path / 'file'}: Not a directory\n"

    def test_an_empty_directory_has_warnings(self, storage: Run, tmp_path: Path) -> None:
        assert storage("check", "--storage", str(tmp_path)).exit_code == 3

    @pytest.mark.parametrize("place", NO_PLACES)
    def test_text_that_names_no_storage_is_refused(self, storage: Run, place: str) -> None:
        done = storage("check", "--storage", place)
        assert done.exit_code == 2
        assert "is neither a directory nor postgresql://…" in done.stderr
        assert "secret" not in done.stderr

    def test_a_directory_with_foreign_files_is_a_problem(
        self, storage: Run, tmp_path: Path
    ) -> None:
        (tmp_path / "letter").touch()
        assert storage("check", "--storage", str(tmp_path)).exit_code == 1


class TestCheckOfADatabase:
    def test_a_usable_database_passes_with_warnings(
        self, storage: Run, data: Path, database: str, postgres: Postgres
    ) -> None:
        copy(storage, data, database)
        done = storage("check", "--storage", database)
        assert done.exit_code == 3
        # The one of the tests is made to be fast.
        warnings = [line for line in done.output.splitlines() if not line.startswith("ok ")]
        assert warnings == [
            "warning  fsync: is off: a crash of its machine can lose or damage everything"
        ]

    def test_a_database_without_tables_passes_without_making_them(
        self, storage: Run, database: str, postgres: Postgres
    ) -> None:
        assert "a server makes the tables" in storage("check", "--storage", database).output
        schema = database.rpartition("=")[2]
        assert postgres.execute(
            f"select count(*) from pg_tables where schemaname = '{schema}'"
        ) == ["0"]

    def test_an_unreachable_database_is_refused(self, storage: Run) -> None:
        done = storage("check", "--storage", "postgresql://kohort@127.0.0.1:1/postgres")
        assert done.exit_code == 2

    @pytest.mark.parametrize("place", [f"{'x' * 64}/d", "a..b/d", "/d?host=127.0.0.1&port=99999"])
    def test_a_url_without_an_address_is_refused(self, storage: Run, place: str) -> None:
        done = storage("check", "--storage", f"postgresql://{place}")
        assert done.exit_code == 2
        assert "no address of PostgreSQL: " in done.stderr

    def test_a_url_with_an_invalid_port_is_refused(self, storage: Run) -> None:
        done = storage("check", "--storage", "postgresql://kohort@127.0.0.1:99999/postgres")
        assert done.exit_code == 2
        assert "is not postgresql://USER@HOST:PORT/DATABASE" in done.stderr

    def test_a_read_only_database_is_a_problem(
        self, storage: Run, data: Path, database: str
    ) -> None:
        copy(storage, data, database)
        url = f"{database}&default_transaction_read_only=on"
        done = storage("check", "--storage", url)
        assert done.exit_code == 1
        assert "problem  writes: transactions are read-only" in done.output
        assert copy(storage, url, data.with_name("copy")).exit_code == 2

    def test_a_database_without_free_connections_is_refused(
        self, storage: Run, database: str, postgres: Postgres
    ) -> None:
        role = f"one_connection_of_{database.rpartition('=')[2]}"
        postgres.execute(f"create role {role} login connection limit 1")
        done = storage("check", "--storage", database.replace("kohort@", f"{role}@"))
        assert done.exit_code == 2
        assert "warning  connections: 1 are free of the 1 of the role" in done.output
        assert done.stderr == (
            f"kohort: postgresql://127.0.0.1:{postgres.port}/postgres: PostgreSQL cannot be used: "
            f'too many connections for role "{role}"\n'
        )
        postgres.execute(f"drop role {role}")

    def test_a_url_with_a_cut_password_is_refused_without_showing_it(self, storage: Run) -> None:
        done = storage("check", "--storage", "postgresql://kohort:sec/ret@127.0.0.1:1/postgres")
        assert done.exit_code == 2
        assert "sec" not in done.stderr
        assert "ret@" not in done.stderr
