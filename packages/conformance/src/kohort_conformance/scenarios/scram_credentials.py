"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554), error paths first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kohort_conformance.logins import SALT, SCRAM, upsertion
from kohort_conformance.scenario import SECURED, scenario
from kohort_conformance.stage import Client, Stage

Fields = dict[str, Any]
SHA_256, SHA_512 = 1, 2
MECHANISMS: Final = tuple(SCRAM)


def deletion(user: str, mechanism: int = SHA_256) -> Fields:
    return {"name": user, "mechanism": mechanism}


def in_order(told: Fields) -> Fields:
    """Results by user: Kafka's are in the order of a hash map."""
    results = [
        {**one, "credential_infos": sorted(one["credential_infos"], key=lambda i: i["mechanism"])}
        if "credential_infos" in one
        else one
        for one in told["results"]
    ]
    return {**told, "results": sorted(results, key=lambda one: str(one["user"]))}


async def alter(
    client: Client, upsertions: Sequence[Fields] = (), deletions: Sequence[Fields] = ()
) -> None:
    call = client.send("AlterUserScramCredentials", 0, upsertions=upsertions, deletions=deletions)
    await call.response_as(in_order)


async def describe(client: Client, *users: str) -> None:
    call = client.send("DescribeUserScramCredentials", 0, users=[{"name": user} for user in users])
    await call.response_as(in_order)


async def until_described(stage: Stage, client: Client, user: str, *expected: int) -> None:
    """Wait until a user has the credentials of these mechanisms."""

    async def is_so() -> bool:
        told = await client.quiet("DescribeUserScramCredentials", 0, users=[{"name": user}])
        (one,) = told["results"]
        return sorted(info["mechanism"] for info in one["credential_infos"]) == sorted(expected)

    await stage.until(f"credentials of {user}", is_so)


@scenario(profile=SECURED)
async def set_described_and_deleted(stage: Stage) -> None:
    """The life of a user with both mechanisms."""
    a = await stage.client()
    user = stage.user_named("user")
    await alter(a, [upsertion(user)])
    await until_described(stage, a, user, SHA_256)
    await describe(a, user)
    await alter(a, [upsertion(user, MECHANISMS[1], iterations=8_192)])
    await until_described(stage, a, user, SHA_256, SHA_512)
    await describe(a, user)
    await alter(a, [upsertion(user, iterations=16_384)])
    await stage.settle()
    await describe(a, user)
    await alter(a, (), [deletion(user)])
    await until_described(stage, a, user, SHA_512)
    await describe(a, user)
    await alter(a, (), [deletion(user, SHA_512)])
    await until_described(stage, a, user)
    await describe(a, user)


@scenario(profile=SECURED)
async def iterations(stage: Stage) -> None:
    """From 4,096 to 16,384 are accepted."""
    a = await stage.client()
    for number in (4_095, 4_096, 16_384, 16_385, 1, 0, -1, 2**31 - 1, -(2**31)):
        user = stage.user_named(f"user{number}")
        await alter(a, [{**upsertion(user), "iterations": number}])


@scenario(profile=SECURED)
async def iterations_of_the_other_mechanism(stage: Stage) -> None:
    """The bounds are the same with SCRAM-SHA-512."""
    a = await stage.client()
    for number in (4_095, 4_096, 16_384, 16_385):
        user = stage.user_named(f"user{number}")
        await alter(a, [{**upsertion(user, MECHANISMS[1]), "iterations": number}])


@scenario(profile=SECURED)
async def unknown_mechanisms(stage: Stage) -> None:
    """Codes that are no mechanism."""
    a = await stage.client()
    user = stage.user_named("user")
    for code in (0, 3, -1, 127):
        await alter(a, [{**upsertion(user), "mechanism": code}])
        await alter(a, (), [deletion(user, code)])


@scenario(profile=SECURED)
async def empty_names(stage: Stage) -> None:
    """A user has a name; which of several errors counts."""
    a = await stage.client()
    await alter(a, [upsertion("")])
    await alter(a, (), [deletion("")])
    await alter(a, [{**upsertion(""), "mechanism": 9}])
    await alter(a, [{**upsertion(""), "iterations": 1}])
    await alter(a, [upsertion("")], [deletion("")])


@scenario(profile=SECURED)
async def empty_salt(stage: Stage) -> None:
    """A salt may be empty."""
    a = await stage.client()
    await alter(a, [{**upsertion(stage.user_named("user")), "salt": b""}])


@scenario(profile=SECURED)
async def odd_secrets(stage: Stage) -> None:
    """A salt of one byte, and salted passwords that are not as long as the hash."""
    a = await stage.client()
    for name, changes in (
        ("short-salt", {"salt": b"x"}),
        ("short-password", {"salted_password": b"x"}),
        ("long-password", {"salted_password": SALT * 10}),
    ):
        await alter(a, [{**upsertion(stage.user_named(name)), **changes}])


@scenario(profile=SECURED)
async def several_errors_of_one_entry(stage: Stage) -> None:
    """Which one counts: the mechanism, the iterations or the password."""
    a = await stage.client()
    user = stage.user_named("user")
    few: Fields = {"iterations": 1}
    for changes in (
        {"mechanism": 9, **few},
        {"salted_password": b"", **few},
        {"salt": b"", "salted_password": b"", "mechanism": 9},
    ):
        await alter(a, [{**upsertion(user), **changes}])


@scenario(profile=SECURED)
async def deletion_of_what_is_not_there(stage: Stage) -> None:
    """A user that does not exist, and one that has the other mechanism only."""
    a = await stage.client()
    await alter(a, (), [deletion(stage.user_named("nobody"))])
    user = stage.user_named("user")
    await alter(a, [upsertion(user)])
    await until_described(stage, a, user, SHA_256)
    await alter(a, (), [deletion(user, SHA_512)])


@scenario(profile=SECURED)
async def user_twice(stage: Stage) -> None:
    """A user comes once in a request: not for both mechanisms, nor to be set and deleted."""
    a = await stage.client()
    user = stage.user_named("user")
    both = [upsertion(user), upsertion(user, MECHANISMS[1])]
    await alter(a, [upsertion(user), upsertion(user)])
    await alter(a, both)
    await alter(a, (), [deletion(user), deletion(user)])
    await alter(a, (), [deletion(user), deletion(user, SHA_512)])
    await alter(a, [upsertion(user)], [deletion(user)])
    await stage.settle()
    await describe(a, user)


@scenario(profile=SECURED)
async def existing_user_twice(stage: Stage) -> None:
    """A user that exists, to be deleted twice, or deleted and set."""
    a = await stage.client()
    user = stage.user_named("user")
    await alter(a, [upsertion(user)])
    await until_described(stage, a, user, SHA_256)
    await alter(a, (), [deletion(user), deletion(user)])
    await alter(a, (), [deletion(user), deletion(user, SHA_512)])
    await alter(a, [upsertion(user)], [deletion(user)])
    await alter(a, [upsertion(user, MECHANISMS[1])], [deletion(user)])
    await alter(a, [{**upsertion(user), "iterations": 1}], [deletion(user)])
    await alter(a, [{**upsertion(user), "mechanism": 9}], [deletion(user)])
    await alter(a, (), [deletion(user), deletion(user, 9)])
    await alter(a, (), [deletion(user, SHA_512), deletion(user)])
    await stage.settle()
    await describe(a, user)


@scenario(profile=SECURED)
async def user_twice_with_an_error(stage: Stage) -> None:
    """A user that comes twice, once with an error of its own."""
    a = await stage.client()
    user = stage.user_named("user")
    few = {**upsertion(user), "iterations": 1}
    unknown = {**upsertion(user), "mechanism": 9}
    await alter(a, [few, upsertion(user, MECHANISMS[1])])
    await alter(a, [upsertion(user, MECHANISMS[1]), few])
    await alter(a, [unknown, upsertion(user)])
    await alter(a, [upsertion(user), unknown])
    await alter(a, [few, unknown])
    await alter(a, [unknown, few])
    await alter(a, [upsertion(user)], [deletion(user, 9)])
    await alter(a, [few], [deletion(user)])


@scenario(profile=SECURED)
async def good_and_bad_entries(stage: Stage) -> None:
    """An entry with an error does not keep others from being applied."""
    a = await stage.client()
    good, bad = stage.user_named("good"), stage.user_named("bad")
    few = {**upsertion(bad), "iterations": 1}
    await alter(a, [few, upsertion(good)], [deletion(stage.user_named("nobody"))])
    await until_described(stage, a, good, SHA_256)
    await describe(a, good, bad)


@scenario(profile=SECURED)
async def nothing_to_alter(stage: Stage) -> None:
    """A request without entries."""
    await alter(await stage.client())


@scenario(profile=SECURED)
async def odd_names(stage: Stage) -> None:
    """Names with spaces, separators and characters beyond ASCII are users as any."""
    a = await stage.client()
    for name in ("a b", "a,b=c", "Zoë", "User:x", "a/b"):
        user = stage.user_named(name)
        await alter(a, [upsertion(user)])
        await until_described(stage, a, user, SHA_256)
        await describe(a, user)


@scenario(profile=SECURED)
async def describing_unknown_users(stage: Stage) -> None:
    """Users without credentials, the empty name, and one that is named twice."""
    a = await stage.client()
    nobody = stage.user_named("nobody")
    await describe(a, nobody)
    await describe(a, "")
    await describe(a, nobody, nobody)
    await describe(a, "", "")
    await describe(a, nobody, stage.user_named("other"))


@scenario(profile=SECURED)
async def describing_a_user_twice(stage: Stage) -> None:
    """A user that is named twice is refused, and others are described."""
    a = await stage.client()
    user = stage.user_named("user")
    await alter(a, [upsertion(user)])
    await until_described(stage, a, user, SHA_256)
    await describe(a, user, user)
    await describe(a, user, stage.user_named("nobody"), user)


@scenario(profile=SECURED)
async def describing_all_users(stage: Stage) -> None:
    """Null and no names are for all users."""
    a = await stage.client()
    user = stage.user_named("user")
    await alter(a, [upsertion(user)])
    await until_described(stage, a, user, SHA_256)
    everybody: tuple[list[Fields] | None, ...] = (None, [])
    for users in everybody:
        told = await a.quiet("DescribeUserScramCredentials", 0, users=users)
        stage.note("error code", told["error_code"])
        stage.note("of it", [one for one in told["results"] if one["user"] == user])


@scenario(profile=SECURED)
async def by_those_who_may_not(stage: Stage) -> None:
    """Without ALTER of the cluster every user of a request is refused, once."""
    a = await stage.client("a", "user47")
    user, other = stage.user_named("user"), stage.user_named("other")
    await alter(a, [upsertion(user), upsertion(other)], [deletion(user)])
    await alter(a, [{**upsertion(""), "mechanism": 9}])
    await alter(a)
    await describe(a, user, other)
    await describe(a, user, user)
