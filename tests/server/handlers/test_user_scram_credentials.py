"""AlterUserScramCredentials and DescribeUserScramCredentials: users with passwords."""

from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.security.scram import ScramMechanism, credential_of, salted_password
from kohort.server.handlers.chunked import CHUNK
from kohort.server.metadata import METADATA
from server.handlers.bench import HandlerBench

NONE = ErrorCode.none
DUPLICATE = ErrorCode.duplicate_resource
UNACCEPTABLE = ErrorCode.unacceptable_credential
UNSUPPORTED = ErrorCode.unsupported_sasl_mechanism


def upsertion(name: str, mechanism: int = 1, **changes: Any) -> dict[str, Any]:
    usual = {"iterations": 4096, "salt": b"salt", "salted_password": b"x" * 32}
    return {"name": name, "mechanism": mechanism} | usual | changes


def deletion(name: str, mechanism: int = 1) -> dict[str, Any]:
    return {"name": name, "mechanism": mechanism}


async def altered(
    bench: HandlerBench, *, deletions: Any = (), upsertions: Any = ()
) -> dict[str, tuple[ErrorCode, str | None]]:
    response = await bench.ask(
        "alter_user_scram_credentials", 0, deletions=deletions, upsertions=upsertions
    )
    return {result.user: (result.error_code, result.error_message) for result in response.results}


async def described(bench: HandlerBench, *names: str) -> dict[str, Any]:
    users = [{"name": name} for name in names] or None
    response = await bench.ask("describe_user_scram_credentials", 0, users=users)
    assert response.error_code is NONE
    return {
        result.user: {info.mechanism: info.iterations for info in result.credential_infos}
        or result.error_code
        for result in response.results
    }


async def test_a_credential_is_set_told_and_deleted(bench: HandlerBench) -> None:
    assert await described(bench) == {}
    made = await altered(bench, upsertions=[upsertion("a"), upsertion("b", 2, iterations=8192)])
    assert made == {"a": (NONE, None), "b": (NONE, None)}
    await altered(bench, upsertions=[upsertion("a", 2, iterations=16_384)])
    bench.restart()
    assert await described(bench) == {"a": {1: 4096, 2: 16_384}, "b": {2: 8192}}
    assert await altered(bench, deletions=[deletion("b", 2), deletion("a")]) == {
        "b": (NONE, None),
        "a": (NONE, None),
    }
    bench.restart()
    assert await described(bench) == {"a": {2: 16_384}}


async def test_the_server_keeps_what_the_password_proves(bench: HandlerBench) -> None:
    kind = ScramMechanism.SHA_256
    salted = salted_password(kind, "secret", b"salt", 4096)
    await altered(bench, upsertions=[upsertion("a", salted_password=salted)])
    assert bench.controller.image.scram_users.of("a") == {
        kind: credential_of(kind, salted, b"salt", 4096)
    }


async def test_users_that_are_named_twice_or_do_not_exist(bench: HandlerBench) -> None:
    await altered(bench, upsertions=[upsertion("a"), upsertion("b")])
    assert await described(bench, "b", "x", "a", "a") == {
        "b": {1: 4096},
        "x": ErrorCode.resource_not_found,
        "a": DUPLICATE,
    }


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (upsertion(""), UNACCEPTABLE, "Username must not be empty"),
        (upsertion("u", 0), UNSUPPORTED, "Unknown SCRAM mechanism"),
        (upsertion("u", 3), UNSUPPORTED, "Unknown SCRAM mechanism"),
        (upsertion("u", iterations=4095), UNACCEPTABLE, "Too few iterations"),
        (upsertion("u", iterations=16_385), UNACCEPTABLE, "Too many iterations"),
        (upsertion("u" * 1_025), UNACCEPTABLE, "Username is too long"),
        (upsertion("u", salt=bytes(1_025)), UNACCEPTABLE, "Salt is too long"),
        (
            upsertion("u", salted_password=b""),
            UNACCEPTABLE,
            "Salted password must not be empty",
        ),
    ],
)
async def test_credentials_that_are_refused(
    bench: HandlerBench, wanted: dict[str, Any], code: ErrorCode, message: str
) -> None:
    result = await altered(bench, upsertions=[wanted, upsertion("other")])
    assert result == {wanted["name"]: (code, message), "other": (NONE, None)}
    assert await described(bench) == {"other": {1: 4096}}


async def test_a_user_is_altered_once_in_a_request(bench: HandlerBench) -> None:
    names = ("a", "a2", "a3", "a4", "a5")
    await altered(bench, upsertions=list(map(upsertion, names)))
    twice = (DUPLICATE, "A user credential cannot be altered twice in the same request")
    missing = (
        ErrorCode.resource_not_found,
        "Attempt to delete a user credential that does not exist",
    )
    result = await altered(
        bench,
        deletions=[
            *map(deletion, ("a", "a2", "a2", "x", "a4")),
            *(deletion("y", 9), deletion("a4", 2)),
        ],
        upsertions=[
            *map(upsertion, ("a", "a3", "x", "a5")),
            *(upsertion("a3", 2), upsertion("a5", iterations=1)),
        ],
    )
    unknown = (UNSUPPORTED, "Unknown SCRAM mechanism")
    assert result == dict.fromkeys(names, twice) | {"x": missing, "y": unknown}
    assert await described(bench) == {user: {1: 4096} for user in names}


async def test_more_users_than_are_altered_at_once(bench: HandlerBench) -> None:
    names = [f"{'x' * 1_000}{number}" for number in range(120)]
    result = await altered(bench, upsertions=[upsertion(name, salt=bytes(1_024)) for name in names])
    assert result == dict.fromkeys(names, (NONE, None))
    bench.restart()
    assert set(await described(bench)) == set(names)


async def test_all_users_are_told_as_of_one_moment(bench: HandlerBench) -> None:
    names = [f"u{number}" for number in range(2 * CHUNK)]
    await altered(bench, upsertions=[upsertion(name) for name in names])
    exchange, task = bench.begin("describe_user_scram_credentials", 0, users=None)
    assert task is not None  # half of the users were looked at
    kind = ScramMechanism.SHA_256
    bench.controller.writer.commit(
        *bench.controller.scram.alter_credentials({(names[-1], kind): None, (names[0], kind): None})
    )
    await task
    assert [(result.user, result.error_code) for result in exchange.outcome.results] == [
        (name, NONE) for name in names
    ]


async def test_a_log_that_fails_is_told_for_the_users_concerned(bench: HandlerBench) -> None:
    bench.directory.fail("append", METADATA)
    result = await altered(bench, upsertions=[upsertion("a"), upsertion("")])
    assert result["a"][0] is ErrorCode.kafka_storage_error
    assert result[""][0] is UNACCEPTABLE
    assert await described(bench) == {}
