"""The order of requests before a login, and what a SaslHandshake and SaslAuthenticate may be."""

from __future__ import annotations

import struct
from typing import Any, Final

from kohort_conformance.logins import PLAIN, Login, plain_token
from kohort_conformance.scenario import SECURED, scenario
from kohort_conformance.stage import Client, Stage

USER: Final = "user40"
GOOD: Final = plain_token(USER)
LIMIT: Final = 524_288
"""`sasl.server.max.receive.size`."""
KEYS: Final = {"SaslHandshake": 17, "ApiVersions": 18, "SaslAuthenticate": 36}
SOFTWARE: Final = {"client_software_name": "scenario", "client_software_version": "1"}


async def works(client: Client) -> None:
    """Record the response to a request that everybody may send."""
    told = await client.send("ListGroups", 4).response_as(lambda told: {**told, "groups": []})
    if not told:
        await client.is_hung_up()


async def raw(client: Client, api: str, version: int, body: bytes, read_as: int = 0) -> None:
    """Send a request whose version or body kio would not write, and record the response."""
    call = client.connection.expect(api, read_as)
    head = struct.pack(">hhih", KEYS[api], version, call.correlation_id, -1)
    client.connection.send_frame(head + body)
    await client.stage.record(f"{client.client_id}: {api} v{version}", call, 20)


async def say_mechanism(client: Client, mechanism: str = PLAIN, version: int = 1) -> None:
    await client.ask("SaslHandshake", version, mechanism=mechanism)


@scenario(profile=SECURED)
async def handshake_and_one_message(stage: Stage) -> None:
    """A login by SaslHandshake v1 and each version of SaslAuthenticate; then requests are served.

    The lifetime of the session is told from v1 on.
    """
    for version in (0, 1, 2):
        a = await stage.stranger(f"v{version}")
        await say_mechanism(a)
        await Login(a, version=version).say(GOOD)
        await works(a)


@scenario(profile=SECURED)
async def handshake_v0_and_a_token(stage: Stage) -> None:
    """After SaslHandshake v0 messages have no header, and the response to the last one is empty."""
    a = await stage.stranger()
    await say_mechanism(a, version=0)
    login = Login(a)
    login.is_raw = True
    await login.say(GOOD)
    await works(a)


@scenario(profile=SECURED)
async def wrong_token_after_handshake_v0(stage: Stage) -> None:
    """A login that fails gets no response there: the connection is closed."""
    for message in (plain_token(USER, "wrong"), plain_token("nobody", "x"), b"x", b""):
        login = Login(await stage.stranger())
        await login.handshake(0)
        await login.say(message)
        await login.client.is_hung_up()


@scenario(profile=SECURED)
async def request_after_handshake_v0(stage: Stage) -> None:
    """A request is taken for a token there, SaslAuthenticate too."""
    for api, values in (
        ("SaslAuthenticate", {"auth_bytes": GOOD}),
        ("ApiVersions", {}),
        ("SaslHandshake", {"mechanism": PLAIN}),
    ):
        a = await stage.stranger()
        await Login(a).handshake(0)
        await a.ask(api, 0, **values)
        await a.is_hung_up()


@scenario(profile=SECURED)
async def unknown_mechanisms(stage: Stage) -> None:
    """A mechanism that is not enabled gets the list of those that are, and an end."""
    for version in (0, 1):
        for mechanism in ("GSSAPI", "", "plain", "SCRAM-SHA-1", "PLAIN ", "x" * 1_000):
            a = await stage.stranger(f"{mechanism[:10]} v{version}")
            await say_mechanism(a, mechanism, version)
            await a.is_hung_up()


@scenario(profile=SECURED)
async def known_mechanisms(stage: Stage) -> None:
    """Each mechanism that is enabled is accepted, with the list of all."""
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"):
        for version in (0, 1):
            await say_mechanism(await stage.stranger(), mechanism, version)


@scenario(profile=SECURED)
async def two_handshakes(stage: Stage) -> None:
    """A second SaslHandshake before the login is refused, of the same mechanism or another."""
    for mechanism in (PLAIN, "SCRAM-SHA-256", "GSSAPI"):
        for version in (0, 1):
            a = await stage.stranger()
            await Login(a).handshake()
            await say_mechanism(a, mechanism, version)
            await a.is_hung_up()


@scenario(profile=SECURED)
async def authenticate_before_the_handshake(stage: Stage) -> None:
    """SaslAuthenticate without a mechanism closes the connection."""
    for version in (0, 1, 2):
        a = await stage.stranger()
        await a.ask("SaslAuthenticate", version, auth_bytes=GOOD)
        await a.is_hung_up()


@scenario(profile=SECURED)
async def authenticate_after_versions(stage: Stage) -> None:
    """SaslAuthenticate right after ApiVersions closes the connection."""
    a = await stage.stranger()
    await a.quiet("ApiVersions", 3, **SOFTWARE)
    await a.ask("SaslAuthenticate", 2, auth_bytes=GOOD)
    await a.is_hung_up()


@scenario(profile=SECURED)
async def other_requests_first(stage: Stage) -> None:
    """Any other request before the handshake closes the connection."""
    asked: tuple[tuple[str, int, dict[str, Any]], ...] = (
        ("Metadata", 9, {"topics": None}),
        ("Metadata", 0, {"topics": []}),
        ("ListGroups", 4, {}),
        ("Heartbeat", 4, {"group_id": stage.group}),
        ("FindCoordinator", 3, {"key": stage.group}),
        ("DescribeCluster", 0, {}),
        ("Produce", 9, {"acks": 0}),
    )
    for api, version, values in asked:
        for after_versions in (False, True):
            a = await stage.stranger()
            if after_versions:
                await a.quiet("ApiVersions", 0)
            await a.ask(api, version, **values)
            await a.is_hung_up()


@scenario(profile=SECURED)
async def versions_before_the_handshake(stage: Stage) -> None:
    """ApiVersions may come first, in each version; the login goes on after it."""
    for version in range(6):
        a = await stage.stranger(f"v{version}")
        told = await a.quiet("ApiVersions", version, **(SOFTWARE if version > 2 else {}))
        stage.note("error code", told["error_code"])
        await Login(a).log_in(USER)
        await works(a)


@scenario(profile=SECURED)
async def versions_twice(stage: Stage) -> None:
    """A second ApiVersions closes the connection."""
    a = await stage.stranger()
    await a.quiet("ApiVersions", 0)
    await a.ask("ApiVersions", 0)
    await a.is_hung_up()


@scenario(profile=SECURED)
async def versions_again_after_an_error(stage: Stage) -> None:
    """ApiVersions that was refused may be sent again: an unknown version, a bad name."""
    a = await stage.stranger()
    for version in (99, 6):
        await raw(a, "ApiVersions", version, b"\0")
    for name in ("", "-", "a b"):
        await a.ask("ApiVersions", 3, **{**SOFTWARE, "client_software_name": name})
    stage.note("accepted", (await a.quiet("ApiVersions", 3, **SOFTWARE))["error_code"])
    await Login(a).log_in(USER)
    await works(a)


@scenario(profile=SECURED)
async def malformed_versions(stage: Stage) -> None:
    """An ApiVersions without the tags of its header closes the connection."""
    for version in (3, 99):
        a = await stage.stranger(f"v{version}")
        await raw(a, "ApiVersions", version, b"")
        await a.is_hung_up()


@scenario(profile=SECURED)
async def versions_after_the_handshake(stage: Stage) -> None:
    """ApiVersions between SaslHandshake and SaslAuthenticate is refused."""
    for version in range(6):
        a = await stage.stranger(f"v{version}")
        await Login(a).handshake()
        await a.ask("ApiVersions", version, **(SOFTWARE if version > 2 else {}))
        await a.is_hung_up()


@scenario(profile=SECURED)
async def versions_after_the_login(stage: Stage) -> None:
    """ApiVersions is answered after the login as everywhere, twice too."""
    a = await stage.client("a", USER)
    for version in (0, 3, 5):
        for _ in range(2):
            told = await a.quiet("ApiVersions", version, **(SOFTWARE if version > 2 else {}))
            stage.note(f"v{version}", told["error_code"])


@scenario(profile=SECURED)
async def sasl_requests_after_the_login(stage: Stage) -> None:
    """SaslAuthenticate after a login is refused; the connection stays."""
    a = await stage.client("a", USER)
    for version in (0, 1, 2):
        await a.ask("SaslAuthenticate", version, auth_bytes=GOOD)
    await a.ask("SaslAuthenticate", 2, auth_bytes=b"")
    await works(a)


@scenario(profile=SECURED)
async def unknown_versions_of_sasl_requests(stage: Stage) -> None:
    """SaslHandshake v2 and SaslAuthenticate v3 close the connection."""
    a = await stage.stranger("a")
    await raw(a, "SaslHandshake", 2, struct.pack(">h5s", 5, b"PLAIN"), read_as=1)
    await a.is_hung_up()
    b = await stage.stranger("b")
    await Login(b).handshake()
    await raw(b, "SaslAuthenticate", 3, struct.pack(">i", len(GOOD)) + GOOD, read_as=2)
    await b.is_hung_up()


@scenario(profile=SECURED)
async def malformed_handshakes(stage: Stage) -> None:
    """A SaslHandshake that is too short, or has no mechanism, closes the connection."""
    for body in (b"", b"\0", b"\xff\xff", b"\0\x09PLAIN", b"\0\2\xff\xfe"):
        a = await stage.stranger(body.hex() or "empty")
        await raw(a, "SaslHandshake", 1, body, read_as=1)
        await a.is_hung_up()


@scenario(profile=SECURED)
async def bytes_after_a_handshake(stage: Stage) -> None:
    """Bytes after the last field of a SaslHandshake."""
    a = await stage.stranger()
    await raw(a, "SaslHandshake", 1, b"\0\5PLAIN\0", read_as=1)
    await a.is_hung_up()


@scenario(profile=SECURED)
async def malformed_messages(stage: Stage) -> None:
    """A SaslAuthenticate that is too short, or whose bytes are null, closes the connection."""
    for body in (b"", b"\0\0\0", b"\xff\xff\xff\xff", struct.pack(">i", 99) + GOOD):
        a = await stage.stranger(body[:6].hex() or "empty")
        await Login(a).handshake()
        await raw(a, "SaslAuthenticate", 1, body, read_as=1)
        await a.is_hung_up()


@scenario(profile=SECURED)
async def sizes_of_frames(stage: Stage) -> None:
    """Frames without content, of a negative size or beyond the limit close the connection."""
    for at, after_handshake in (("first", False), ("between", True)):
        for size in (0, -1, LIMIT + 1):
            a = await stage.stranger(f"{size} {at}")
            if after_handshake:
                await Login(a).handshake()
            a.connection.send_bytes(struct.pack(">i", size))
            await a.is_hung_up()


@scenario(profile=SECURED)
async def largest_message(stage: Stage) -> None:
    """A SaslAuthenticate as large as the limit is judged."""
    a = await stage.stranger()
    await Login(a).handshake()
    call = a.connection.expect("SaslAuthenticate", 1)
    head = struct.pack(">hhihi", 36, 1, call.correlation_id, -1, LIMIT - 14)
    message = plain_token(USER).ljust(LIMIT - 14, b"x")
    a.connection.send_frame(head + message)
    await stage.record("a: SaslAuthenticate v1", call, 20)
    await a.is_hung_up()


@scenario(profile=SECURED)
async def all_at_once(stage: Stage) -> None:
    """Handshake, message and a request in one write are served one after the other."""
    a = await stage.stranger()
    sent = [
        a.send("ApiVersions", 0),
        a.send("SaslHandshake", 1, mechanism=PLAIN),
        a.send("SaslAuthenticate", 2, auth_bytes=GOOD),
        a.send("ListGroups", 4),
    ]
    stage.note("versions", (await sent[0].quiet())["error_code"])
    for one in sent[1:3]:
        await one.response()
    await sent[3].response_as(lambda told: {**told, "groups": []})


@scenario(profile=SECURED)
async def requests_behind_a_login_that_fails(stage: Stage) -> None:
    """What comes behind a wrong password is not served."""
    a = await stage.stranger()
    await Login(a).handshake()
    sent = [
        a.send("SaslAuthenticate", 2, auth_bytes=plain_token(USER, "wrong")),
        a.send("SaslAuthenticate", 2, auth_bytes=GOOD),
        a.send("ListGroups", 4),
    ]
    for one in sent:
        await one.response()
    await a.is_hung_up()


@scenario(profile=SECURED)
async def without_a_client_id(stage: Stage) -> None:
    """A null client id is as good as any."""
    login = Login(await stage.stranger(None))
    await login.log_in(USER)
    await works(login.client)
