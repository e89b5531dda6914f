"""Sessions that end, and logins on connections that have one already (KIP-368)."""

from __future__ import annotations

from typing import Any, Final

from kohort_conformance.logins import (
    OAUTHBEARER,
    PLAIN,
    Login,
    alter_users,
    bearer,
    claims_of,
    create_user,
    plain_token,
    unsigned,
    until_logs_in,
    upsertion,
)
from kohort_conformance.scenario import SECURED, scenario
from kohort_conformance.scenarios.sasl_order import SOFTWARE, works
from kohort_conformance.stage import Stage, how_long
from kohort_conformance.wire import password

USER: Final = "user45"
OTHER: Final = "user46"
PAUSE: Final = 1.2
"""Seconds after which a session may begin again once more."""


async def logged_in(
    stage: Stage, mechanism: str = PLAIN, user: str = USER, name: str = "a"
) -> Login:
    login = Login(await stage.stranger(name), mechanism)
    await login.succeed(user)
    return login


@scenario(profile=SECURED)
async def lifetimes(stage: Stage) -> None:
    """The session is as long as `connections.max.reauth.ms` of the mechanism; without, no end."""
    user = await create_user(stage)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        await Login(await stage.stranger(mechanism), mechanism).log_in(user)
    for mechanism in (PLAIN, OAUTHBEARER):
        await Login(await stage.stranger(mechanism), mechanism).log_in(USER)


@scenario(profile=SECURED)
async def lifetime_of_a_token(stage: Stage) -> None:
    """The session ends with the token, if that is sooner."""
    a = await stage.stranger()
    await Login(a, OAUTHBEARER).handshake()
    token = bearer(unsigned(claims_of(USER, 300)))
    told = await a.quiet("SaslAuthenticate", 2, auth_bytes=token)
    stage.note("lifetime", how_long(told["session_lifetime"] / 1_000, 280, 300))


@scenario(profile=SECURED)
async def same_user_again(stage: Stage) -> None:
    """A second login of the same user on an open connection, by each mechanism."""
    user = await create_user(stage, "user", "SCRAM-SHA-512")
    for mechanism, who in ((PLAIN, USER), ("SCRAM-SHA-512", user), (OAUTHBEARER, USER)):
        login = await logged_in(stage, mechanism, who, mechanism)
        await works(login.client)
        await login.client.ask("SaslHandshake", 1, mechanism=mechanism)
        await login.authenticate(who)
        await works(login.client)


@scenario(profile=SECURED)
async def same_user_in_each_version(stage: Stage) -> None:
    """SaslAuthenticate v0 does not tell the lifetime of the second session either."""
    for version in (0, 1):
        login = await logged_in(stage, name=f"v{version}")
        login.version = version
        await login.log_in(USER)
        await works(login.client)


@scenario(profile=SECURED)
async def without_a_session(stage: Stage) -> None:
    """A connection whose session does not end takes no second login; it stays open."""
    user = await create_user(stage, "user", "SCRAM-SHA-256")
    login = await logged_in(stage, "SCRAM-SHA-256", user)
    for version in (0, 1):
        for mechanism in ("SCRAM-SHA-256", PLAIN, "GSSAPI"):
            await login.client.ask("SaslHandshake", version, mechanism=mechanism)
    await works(login.client)


@scenario(profile=SECURED)
async def another_user(stage: Stage) -> None:
    """A second login as another user is refused, and closes the connection."""
    for mechanism in (PLAIN, OAUTHBEARER):
        login = await logged_in(stage, mechanism, name=mechanism)
        await login.handshake()
        await login.authenticate(OTHER)
        await login.client.is_hung_up()


@scenario(profile=SECURED)
async def another_user_by_scram(stage: Stage) -> None:
    """A second login as another user by SCRAM."""
    user = await create_user(stage, "user", "SCRAM-SHA-512")
    other = await create_user(stage, "other", "SCRAM-SHA-512")
    login = await logged_in(stage, "SCRAM-SHA-512", user)
    await login.handshake()
    await login.authenticate(other)
    await login.client.is_hung_up()


@scenario(profile=SECURED)
async def another_mechanism(stage: Stage) -> None:
    """A second login by another mechanism closes the connection."""
    for mechanism in (OAUTHBEARER, "SCRAM-SHA-256"):
        login = await logged_in(stage, name=mechanism)
        await login.client.ask("SaslHandshake", 1, mechanism=mechanism)
        await login.client.ask("SaslAuthenticate", 2, auth_bytes=plain_token(USER))
        await login.client.is_hung_up()


@scenario(profile=SECURED)
async def request_after_another_mechanism(stage: Stage) -> None:
    """Not only a message of the login finds the connection closed then."""
    login = await logged_in(stage)
    await login.client.ask("SaslHandshake", 1, mechanism=OAUTHBEARER)
    await login.client.ask("ListGroups", 4)
    await login.client.is_hung_up()


@scenario(profile=SECURED)
async def unknown_mechanism(stage: Stage) -> None:
    """A second login by a mechanism that is not enabled."""
    for version in (0, 1):
        login = await logged_in(stage, name=f"v{version}")
        await login.client.ask("SaslHandshake", version, mechanism="GSSAPI")
        await login.client.is_hung_up()


@scenario(profile=SECURED)
async def wrong_password(stage: Stage) -> None:
    """A second login with a wrong password is refused, and closes the connection."""
    login = await logged_in(stage)
    await login.handshake()
    await login.authenticate(USER, "wrong")
    await login.client.is_hung_up()


@scenario(profile=SECURED)
async def changed_password(stage: Stage) -> None:
    """A second login needs the password as it is by then."""
    user = await create_user(stage, "user", "SCRAM-SHA-512")
    login = await logged_in(stage, "SCRAM-SHA-512", user)
    await alter_users(stage, upsertions=[upsertion(user, "SCRAM-SHA-512", "another")])
    await until_logs_in(stage, user, "SCRAM-SHA-512", "another")
    await login.handshake()
    await login.authenticate(user)
    await login.client.is_hung_up()


@scenario(profile=SECURED)
async def refused_token(stage: Stage) -> None:
    """A second login with a bad token gets the status, and fails after ^A."""
    login = await logged_in(stage, OAUTHBEARER)
    await login.handshake()
    await login.say(bearer("x.y.z"))
    await login.say(b"\x01")
    await login.client.is_hung_up()


@scenario(profile=SECURED)
async def malformed_message(stage: Stage) -> None:
    """A second login with a message that is none."""
    for name, message in (("empty", b""), ("x", b"x")):
        login = await logged_in(stage, name=name)
        await login.handshake()
        await login.say(message)
        await login.client.is_hung_up()


@scenario(profile=SECURED)
async def without_headers(stage: Stage) -> None:
    """A second login by SaslHandshake v0."""
    login = await logged_in(stage)
    await login.handshake(0)
    await login.say(plain_token(USER))
    await works(login.client)


@scenario(profile=SECURED)
async def request_in_between(stage: Stage) -> None:
    """Between handshake and message of a second login no other request is served."""
    asked: tuple[tuple[str, int, dict[str, Any]], ...] = (
        ("ListGroups", 4, {}),
        ("Heartbeat", 4, {"group_id": stage.group}),
        ("ApiVersions", 3, SOFTWARE),
        ("SaslHandshake", 1, {"mechanism": PLAIN}),
    )
    for api, version, values in asked:
        login = await logged_in(stage, name=api)
        await login.handshake()
        await login.client.ask(api, version, **values)
        await login.client.is_hung_up()


@scenario(profile=SECURED)
async def message_without_a_handshake(stage: Stage) -> None:
    """A SaslAuthenticate of a session is refused without a handshake before it."""
    login = await logged_in(stage)
    await login.say(plain_token(USER))
    await works(login.client)


@scenario(profile=SECURED)
async def versions_before_the_handshake(stage: Stage) -> None:
    """ApiVersions before the second login is a request as any."""
    login = await logged_in(stage)
    for _ in range(2):
        told = await login.client.quiet("ApiVersions", 3, **SOFTWARE)
        stage.note("versions", told["error_code"])
    await login.log_in(USER)
    await works(login.client)


@scenario(profile=SECURED, waits=2.5)
async def often(stage: Stage) -> None:
    """The third login within a second is refused; the connection stays, and may log in later."""
    login = await logged_in(stage)
    await login.log_in(USER)
    await login.client.ask("SaslHandshake", 1, mechanism=PLAIN)
    await works(login.client)
    await stage.settle(PAUSE)
    await login.log_in(USER)
    await works(login.client)


@scenario(profile=SECURED, waits=4)
async def expired(stage: Stage) -> None:
    """After the end of the session a request closes the connection."""
    logins = {
        api: Login(await stage.stranger(api), OAUTHBEARER)
        for api in ("ListGroups", "SaslAuthenticate", "ApiVersions")
    }
    for login in logins.values():
        await login.succeed(USER, unsigned(claims_of(USER, 2)))
    await stage.settle(3)
    for api, login in logins.items():
        values = {"auth_bytes": b"x"} if api == "SaslAuthenticate" else {}
        await login.client.ask(api, 0, **values)
        await login.client.is_hung_up()


@scenario(profile=SECURED, waits=4)
async def login_after_the_end(stage: Stage) -> None:
    """After the end of the session a second login is still taken."""
    login = Login(await stage.stranger(), OAUTHBEARER)
    await login.succeed(USER, unsigned(claims_of(USER, 2)))
    await stage.settle(3)
    await login.log_in(USER)
    await works(login.client)


@scenario(profile=SECURED)
async def rights_after_a_second_login(stage: Stage) -> None:
    """The connection is still that of the same user."""
    login = await logged_in(stage, PLAIN, "admin")
    await login.handshake()
    await login.authenticate("admin", password("admin"))
    await login.client.ask(
        "DescribeUserScramCredentials", 0, users=[{"name": stage.user_named("nobody")}]
    )
