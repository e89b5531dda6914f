"""What is said of a statement that failed."""

from pathlib import Path

import pytest
from asyncpg import InterfaceError, InternalClientError

from kohort.cluster import UnknownOutcomeError
from kohort.storage.postgres.errors import DatabaseError, outcome
from kohort.storage.postgres.link import STATEMENT_TIMEOUT_S, TIMEOUTS, Link
from peers.postgres import Postgres


def test_a_database_that_does_not_respond():
    with pytest.raises(UnknownOutcomeError, match=r"^no response in time$"), outcome():
        raise TimeoutError


def test_an_error_of_the_database_has_no_number_of_the_system():
    text = "PostgreSQL cannot be reached"
    assert str(DatabaseError(None, text)) == text


@pytest.mark.parametrize("name", ["sslrootcert", "sslcert"])
async def test_a_file_of_the_url_that_is_missing_is_named(name: str, tmp_path: Path) -> None:
    missing = tmp_path / "none.pem"
    link = Link(f"postgresql://127.0.0.1:1/d?sslmode=require&{name}={missing}", "a test")
    with pytest.raises(UnknownOutcomeError, match=f"{name}: No such file or directory: '{missing}"):
        await link.get()


async def test_postgresql_ends_what_was_given_up_and_what_a_lost_machine_has(database: str) -> None:
    link = Link(database, "a test")
    connection = await link.get()
    found = [
        await connection.fetchval(f"select setting::int from pg_settings where name = '{name}'")
        for name in ("statement_timeout", "tcp_keepalives_idle", "tcp_keepalives_interval")
    ]
    await link.close()
    assert STATEMENT_TIMEOUT_S * 1_000 < found[0] <= 60_000, "a statement is given up here first"
    assert found[1:] == [5, 1]


@pytest.mark.parametrize(
    "error",
    [
        InternalClientError("cannot switch to state 12; another operation (2) is in progress"),
        InterfaceError("cannot perform operation: another operation is in progress"),
        InterfaceError("cannot call Connection.fetch(): connection is closed"),
    ],
    ids=["state", "operation", "closed"],
)
def test_internal_states_of_the_driver_read_as_a_lost_connection(error: Exception) -> None:
    with pytest.raises(UnknownOutcomeError, match=r"^the connection was lost$"), outcome():
        raise error


async def test_no_timeout_of_a_role_ends_a_connection(postgres: Postgres, database: str) -> None:
    """One of them holds the node's lock, and has nothing else to do for hours."""
    role = f"impatient_{database.rpartition('=')[2]}"
    known = postgres.execute(f"select name from pg_settings where name in {TIMEOUTS}")
    assert len(known) >= 3
    postgres.execute(
        f"create role {role} login",
        *(f"alter role {role} set {name} = 100" for name in known),
    )
    link = Link(database.replace("kohort@", f"{role}@"), "a test")
    connection = await link.get()
    found = await connection.fetch(
        "select name, setting, reset_val from pg_settings where name = any($1)", known
    )
    assert {tuple(each) for each in found} == {(name, "0", "100") for name in known}
    await link.close()
    postgres.execute(f"drop role {role}")
