"""SASL OAUTHBEARER with tokens that are not signed: their claims, and messages that are none."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

from kohort_conformance.logins import (
    OAUTHBEARER,
    Login,
    bearer,
    claims_of,
    encoded,
    unsigned,
)
from kohort_conformance.scenario import SECURED, scenario
from kohort_conformance.scenarios.sasl_order import works
from kohort_conformance.stage import Stage

USER: Final = "user43"
OTHER: Final = "user44"


async def begun(stage: Stage, name: str = "a", version: int = 2) -> Login:
    login = Login(await stage.stranger(name), OAUTHBEARER, version)
    await login.handshake()
    return login


async def told(stage: Stage, messages: Iterable[tuple[str, bytes]]) -> None:
    """Record what each first message gets."""
    for name, message in messages:
        await (await begun(stage, name)).say(message)


def message(**changes: Any) -> bytes:
    """A token with other claims."""
    return bearer(unsigned(claims_of(USER, **changes)))


@scenario(profile=SECURED)
async def login(stage: Stage) -> None:
    """A login by each version of SaslAuthenticate, and without headers."""
    for version in (0, 1, 2):
        one = await begun(stage, f"v{version}", version)
        await one.say(message())
        await works(one.client)
    two = Login(await stage.stranger("without"), OAUTHBEARER)
    await two.handshake(0)
    await two.say(message())
    await works(two.client)


@scenario(profile=SECURED)
async def refused_token(stage: Stage) -> None:
    """A bad token gets a status, which the client acknowledges with ^A; then the login fails."""
    for version in (0, 1, 2):
        one = await begun(stage, f"v{version}", version)
        await one.say(bearer("x.y.z"))
        await one.say(b"\x01")
        await one.client.is_hung_up()


@scenario(profile=SECURED)
async def refused_token_without_headers(stage: Stage) -> None:
    """The status comes after SaslHandshake v0 too; then the connection is closed."""
    one = Login(await stage.stranger(), OAUTHBEARER)
    await one.handshake(0)
    await one.say(bearer("x.y.z"))
    await one.say(b"\x01")
    await one.client.is_hung_up()


@scenario(profile=SECURED)
async def after_a_refused_token(stage: Stage) -> None:
    """Nothing but ^A acknowledges the status."""
    for name, second in (("empty", b""), ("two", b"\1\1"), ("x", b"x")):
        one = await begun(stage, name)
        await one.say(bearer("x.y.z"))
        await one.say(second)
        await one.client.is_hung_up()


@scenario(profile=SECURED)
async def good_token_after_a_refused_one(stage: Stage) -> None:
    """A second token on the same connection, in place of ^A."""
    one = await begun(stage)
    await one.say(bearer("x.y.z"))
    await one.say(message())


@scenario(profile=SECURED)
async def expiry(stage: Stage) -> None:
    """A token has to have a time of expiry, which has not come."""
    now = time.time()
    await told(
        stage,
        (
            ("without", message(exp=None)),
            ("expired", message(exp=int(now) - 5)),
            ("long ago", message(iat=0, exp=1)),
            ("negative", message(iat=None, exp=-1)),
            ("zero", message(iat=None, exp=0)),
            ("text", message(exp=str(int(now) + 3_600))),
            ("boolean", message(exp=True)),
            ("fraction", message(exp=now + 3_600.5)),
            ("far", message(exp=2**40)),
            ("array", message(exp=[int(now) + 3_600])),
        ),
    )


@scenario(profile=SECURED)
async def issue(stage: Stage) -> None:
    """A time of issue is not needed; if it is there, it has passed, and is before the expiry."""
    now = int(time.time())
    await told(
        stage,
        (
            ("without", message(iat=None)),
            ("future", message(iat=now + 600)),
            ("after the expiry", message(iat=now + 7_200)),
            ("text", message(iat="yesterday")),
            ("negative", message(iat=-1)),
            ("not before, future", message(nbf=now + 600)),
        ),
    )


@scenario(profile=SECURED)
async def principal(stage: Stage) -> None:
    """The claim `sub` is a name."""
    await told(
        stage,
        (
            ("without", message(sub=None)),
            ("empty", message(sub="")),
            ("blank", message(sub="  ")),
            ("number", message(sub=7)),
            ("list", message(sub=[USER])),
            ("unicode", message(sub="Zoë")),
            ("with a space", message(sub="a b")),
        ),
    )


@scenario(profile=SECURED)
async def scope(stage: Stage) -> None:
    """A scope is text or a list of texts, or not there."""
    await told(
        stage,
        (
            ("text", message(scope="one two")),
            ("list", message(scope=["one", "two"])),
            ("empty", message(scope="")),
        ),
    )


@scenario(profile=SECURED)
async def headers(stage: Stage) -> None:
    """The header says that there is no signature, and there is none."""
    claims = claims_of(USER)
    await told(
        stage,
        (
            ("signed", bearer(unsigned(claims, signature=encoded(b"signature")))),
            ("rs256", bearer(unsigned(claims, {"alg": "RS256"}))),
            ("rs256 signed", bearer(unsigned(claims, {"alg": "RS256"}, encoded(b"signature")))),
            ("hs256", bearer(unsigned(claims, {"alg": "HS256"}))),
            ("upper case", bearer(unsigned(claims, {"alg": "NONE"}))),
            ("null", bearer(unsigned(claims, {"alg": None}))),
            ("more", bearer(unsigned(claims, {"alg": "none", "typ": "JWT", "kid": "1"}))),
        ),
    )


@scenario(profile=SECURED)
async def forms_of_tokens(stage: Stage) -> None:
    """A token has three parts, of which two are objects of JSON in base64."""
    head, claims = encoded({"alg": "none"}), encoded(claims_of(USER))
    await told(
        stage,
        (
            ("one part", bearer(head)),
            ("two parts", bearer(f"{head}.{claims}")),
            ("four parts", bearer(f"{head}.{claims}..")),
            ("no claims", bearer(f"{head}..")),
            ("claims that are a list", bearer(unsigned([1]))),
            ("claims that are no json", bearer(unsigned(b"{"))),
            ("claims that are a number", bearer(unsigned(b"7"))),
            ("claims that are empty", bearer(unsigned({}))),
            ("no base64", bearer(f"{head}.~~~~.")),
            ("padding", bearer(f"{head}.{claims}=.")),
        ),
    )


@scenario(profile=SECURED)
async def authorization_id(stage: Stage) -> None:
    """The token's own principal is accepted as authorization id, and no other."""
    token = unsigned(claims_of(USER))
    one = await begun(stage)
    await one.say(bearer(token, USER))
    await works(one.client)
    for other in (OTHER, "admin", USER.upper()):
        two = await begun(stage, other)
        await two.say(bearer(token, other))
        await two.client.is_hung_up()


@scenario(profile=SECURED)
async def escaped_authorization_id(stage: Stage) -> None:
    """A comma and an equals sign in an authorization id come as =2C and =3D."""
    token = unsigned(claims_of("a,b=c"))
    await told(
        stage,
        (
            ("escaped", bearer(token, "a=2Cb=3Dc")),
            ("bare", bearer(token, "a,b=c")),
            ("unknown escape", bearer(token, "a=2Xb")),
        ),
    )


@scenario(profile=SECURED)
async def malformed_messages(stage: Stage) -> None:
    """A first message that is none fails at once."""
    token = unsigned(claims_of(USER))
    for name, sent in (
        ("empty", b""),
        ("^A", b"\x01"),
        ("x", b"x"),
        ("only the token", token.encode()),
        ("no header", f"\x01auth=Bearer {token}\x01\x01".encode()),
        ("channel binding", f"y,,\x01auth=Bearer {token}\x01\x01".encode()),
        ("one ^A at the end", f"n,,\x01auth=Bearer {token}\x01".encode()),
        ("three ^A at the end", f"n,,\x01auth=Bearer {token}\x01\x01\x01".encode()),
        ("no ^A", f"n,,auth=Bearer {token}".encode()),
        ("no auth", b"n,,\x01\x01"),
        ("another key", f"n,,\x01Auth=Bearer {token}\x01\x01".encode()),
        ("empty auth", b"n,,\x01auth=\x01\x01"),
        ("no token", b"n,,\x01auth=Bearer \x01\x01"),
        ("no utf-8", b"n,,\x01auth=Bearer \xff\xfe\x01\x01"),
    ):
        one = await begun(stage, name)
        await one.say(sent)
        await one.client.is_hung_up()


@scenario(profile=SECURED)
async def spellings(stage: Stage) -> None:
    """The scheme in other case, several spaces, and other characters around the token."""
    token = unsigned(claims_of(USER))
    await told(
        stage,
        (
            (repr(each), f"n,,\x01auth={each.replace('TOKEN', token)}\x01\x01".encode())
            for each in (
                "bearer TOKEN",
                "BEARER TOKEN",
                "Bearer   TOKEN",
                "Bearer TOKEN ",
                " Bearer TOKEN",
                "Bearer TOKEN==",
            )
        ),
    )


@scenario(profile=SECURED)
async def extensions(stage: Stage) -> None:
    """Other keys beside the token."""
    token = unsigned(claims_of(USER))
    extras = ("traceid=1\x01", "a=b\x01c=d\x01", "a=\x01", "1=b\x01", "a=b=c\x01", "a b=c\x01")
    await told(stage, ((repr(each), bearer(token, extra=each)) for each in extras))


@scenario(profile=SECURED)
async def auth_twice(stage: Stage) -> None:
    """Of two tokens in one message the second counts."""
    good, bad = unsigned(claims_of(USER)), "x.y.z"
    await told(
        stage,
        (
            ("good last", bearer(bad, extra=f"auth=Bearer {good}\x01")),
            ("bad last", bearer(good, extra=f"auth=Bearer {bad}\x01")),
        ),
    )


@scenario(profile=SECURED)
async def long_token(stage: Stage) -> None:
    """A token of 40,000 characters."""
    one = await begun(stage)
    await one.say(message(more="x" * 30_000))
    await works(one.client)


@scenario(profile=SECURED)
async def huge_token(stage: Stage) -> None:
    """A token of 130,000 characters."""
    one = await begun(stage)
    await one.say(message(more="x" * 100_000))
