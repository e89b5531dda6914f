"""SASL PLAIN: names, passwords and authorization ids, and messages that are none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort_conformance.logins import Login, plain_token
from kohort_conformance.scenario import SECURED, scenario
from kohort_conformance.scenarios.sasl_order import works
from kohort_conformance.stage import Stage
from kohort_conformance.wire import password

USER: Final = "user41"
OTHER: Final = "user42"


async def refused(stage: Stage, messages: Iterable[tuple[str, bytes]], version: int = 2) -> None:
    """Record what each message gets, and whether the connection is closed."""
    for name, message in messages:
        login = Login(await stage.stranger(name), version=version)
        await login.handshake()
        await login.say(message)
        await login.client.is_hung_up()


@scenario(profile=SECURED)
async def wrong_passwords(stage: Stage) -> None:
    """A wrong password, one of another user, in other case, cut, and with more behind it."""
    right = password(USER)
    secrets = ("wrong", password(OTHER), right.upper(), right[:-1], f"{right}x", f" {right}")
    await refused(stage, [(secret, plain_token(USER, secret)) for secret in secrets])


@scenario(profile=SECURED)
async def wrong_password_in_each_version(stage: Stage) -> None:
    """SaslAuthenticate v0 to v2 say the same."""
    for version in (0, 1, 2):
        await refused(stage, [(f"v{version}", plain_token(USER, "wrong"))], version)


@scenario(profile=SECURED)
async def unknown_users(stage: Stage) -> None:
    """A user that does not exist, or not in this case, gets what a wrong password gets."""
    users = ("nobody", USER.upper(), f"{USER} ", f"User:{USER}", "ünknown")
    await refused(stage, [(user, plain_token(user, password(USER))) for user in users])


@scenario(profile=SECURED)
async def empty_fields(stage: Stage) -> None:
    """Neither the name nor the password may be empty."""
    await refused(
        stage,
        (
            ("no password", plain_token(USER, "")),
            ("no user", plain_token("", "secret")),
            ("neither", plain_token("", "")),
            ("only an authorization id", plain_token("", "", USER)),
        ),
    )


@scenario(profile=SECURED)
async def numbers_of_tokens(stage: Stage) -> None:
    """A message has three tokens: fewer or more are refused, and so is an empty message."""
    right = password(USER)
    await refused(
        stage,
        (
            ("empty", b""),
            ("one", right.encode()),
            ("two", f"{USER}\0{right}".encode()),
            ("four", f"\0{USER}\0{right}\0".encode()),
            ("nulls", b"\0\0\0\0\0"),
            ("a null in the password", f"\0{USER}\0{right[:3]}\0{right[3:]}".encode()),
        ),
    )


@scenario(profile=SECURED)
async def no_utf_8(stage: Stage) -> None:
    """Bytes that are no text."""
    right = password(USER).encode()
    await refused(
        stage,
        (
            ("in the name", b"\0user\xff\0" + right),
            ("in the password", f"\0{USER}\0".encode() + b"\xff\xfe"),
            ("everywhere", b"\xff\xfe\xfd"),
        ),
    )


@scenario(profile=SECURED)
async def authorization_id_of_the_user(stage: Stage) -> None:
    """The user's own name as authorization id is accepted."""
    login = Login(await stage.stranger())
    await login.handshake()
    await login.say(plain_token(USER, authorization_id=USER))
    await works(login.client)


@scenario(profile=SECURED)
async def authorization_id_of_another(stage: Stage) -> None:
    """Nobody may act as another user, a super user or one that does not exist."""
    ids = (OTHER, "admin", "nobody", USER.upper(), " ")
    await refused(stage, [(one, plain_token(USER, authorization_id=one)) for one in ids])
    wrong = plain_token(USER, "wrong", OTHER)
    await refused(stage, [("and a wrong password", wrong)])


@scenario(profile=SECURED)
async def right_password_after_a_wrong_one(stage: Stage) -> None:
    """A connection whose login has failed takes no other message."""
    login = Login(await stage.stranger())
    await login.handshake()
    await login.say(plain_token(USER, "wrong"))
    await login.say(plain_token(USER))
    await login.client.is_hung_up()


@scenario(profile=SECURED)
async def huge_tokens(stage: Stage) -> None:
    """A name, password or authorization id of 100,000 characters."""
    huge = "x" * 100_000
    await refused(
        stage,
        (
            ("name", plain_token(huge, "secret")),
            ("password", plain_token(USER, huge)),
            ("authorization id", plain_token(USER, authorization_id=huge)),
        ),
    )
