"""SASL SCRAM-SHA-256 and SCRAM-SHA-512: both messages of a client, right and wrong."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, Final

from kohort_conformance.logins import (
    NONCE,
    SCRAM,
    Login,
    alter_users,
    create_user,
    until_logs_in,
    upsertion,
)
from kohort_conformance.scenario import SECURED, scenario
from kohort_conformance.scenarios.sasl_order import works
from kohort_conformance.stage import SetUpError, Stage
from kohort_conformance.wire import password

SHA_256: Final = "SCRAM-SHA-256"
SHA_512: Final = "SCRAM-SHA-512"
OTHER_PASSWORD: Final = "another"


async def begun(stage: Stage, mechanism: str = SHA_256, name: str = "a") -> Login:
    login = Login(await stage.stranger(name), mechanism)
    await login.handshake()
    return login


async def refused_first(stage: Stage, messages: Iterable[tuple[str, bytes]]) -> None:
    """Record what a first message gets, and whether the connection is closed."""
    for name, message in messages:
        login = await begun(stage, name=name)
        await login.say(message)
        await login.client.is_hung_up()


async def refused_final(stage: Stage, *finals: tuple[str, bytes]) -> None:
    """Record what a final message gets after a right first one."""
    user = await create_user(stage, "user", SHA_256)
    for name, message in finals:
        login = await begun(stage, name=name)
        server_first = await login.first(user)
        nonce = server_first.split(b",")[0]
        await login.say(message.replace(b"NONCE", nonce))
        await login.client.is_hung_up()


async def fails(stage: Stage, mechanism: str, user: str) -> None:
    """Record with which code a login fails, whatever message does so."""
    one = await begun(stage, mechanism, mechanism)
    try:
        await one.succeed(user, begins=False)
    except SetUpError as error:
        stage.note(mechanism, str(error))
    await one.client.is_hung_up()


@scenario(profile=SECURED)
async def login(stage: Stage) -> None:
    """A login by each mechanism and each version of SaslAuthenticate; then requests are served."""
    user = await create_user(stage)
    for mechanism in SCRAM:
        for version in (0, 1, 2):
            one = Login(await stage.stranger(f"{mechanism} v{version}"), mechanism, version)
            await one.log_in(user)
            await works(one.client)


@scenario(profile=SECURED)
async def login_without_headers(stage: Stage) -> None:
    """After SaslHandshake v0 both messages have no header."""
    user = await create_user(stage)
    for mechanism in SCRAM:
        one = Login(await stage.stranger(mechanism), mechanism)
        await one.handshake(0)
        await one.authenticate(user)
        await works(one.client)


@scenario(profile=SECURED)
async def wrong_password(stage: Stage) -> None:
    """A wrong password fails at the last message, with each mechanism."""
    user = await create_user(stage)
    for mechanism in SCRAM:
        for secret in ("wrong", password(user).upper(), f"{password(user)}x"):
            one = Login(await stage.stranger(mechanism), mechanism)
            await one.log_in(user, secret)
            await one.client.is_hung_up()


@scenario(profile=SECURED)
async def wrong_password_without_headers(stage: Stage) -> None:
    """After SaslHandshake v0 the connection is just closed."""
    user = await create_user(stage, "user", SHA_256)
    one = Login(await stage.stranger(), SHA_256)
    await one.handshake(0)
    await one.authenticate(user, "wrong")
    await one.client.is_hung_up()


@scenario(profile=SECURED)
async def unknown_user(stage: Stage) -> None:
    """The login of a user that does not exist fails, at one message or the other."""
    for mechanism in SCRAM:
        await fails(stage, mechanism, "nobody")


@scenario(profile=SECURED)
async def first_message_of_an_unknown_user(stage: Stage) -> None:
    """What a user that does not exist gets for its first message."""
    one = await begun(stage)
    await one.first("nobody")


@scenario(profile=SECURED)
async def credential_of_the_other_mechanism(stage: Stage) -> None:
    """A user with a credential of one mechanism only cannot log in by the other."""
    await fails(stage, SHA_256, await create_user(stage, "user", SHA_512))


@scenario(profile=SECURED)
async def most_iterations(stage: Stage) -> None:
    """The server tells the iterations that the credential was made with."""
    user = await create_user(stage, "user", SHA_256, iterations=16_384)
    one = await begun(stage)
    await one.authenticate(user)


@scenario(profile=SECURED)
async def names_are_escaped(stage: Stage) -> None:
    """A comma and an equals sign in a name come as =2C and =3D, of any other name as they are."""
    user = await create_user(stage, "user")
    odd = f"{user},=x"
    stage.users.add(odd)
    await alter_users(stage, upsertions=[upsertion(odd)])
    escaped = odd.replace("=", "=3D").replace(",", "=2C")

    async def logs_in() -> bool:
        told = await (await begun(stage, name="watcher")).client.quiet(
            "SaslAuthenticate", 2, auth_bytes=f"n,,n={escaped},r={NONCE}".encode()
        )
        return bool(told["error_code"] == "NONE (0)")

    await stage.until("the user is known", logs_in)
    one = await begun(stage)
    server_first = await one.first(escaped)
    await one.final(server_first, password(odd))
    await works(one.client)


@scenario(profile=SECURED)
async def malformed_first_messages(stage: Stage) -> None:
    """A first message that is none."""
    user = await create_user(stage, "user", SHA_256)
    good = f"n={user},r={NONCE}"
    await refused_first(
        stage,
        (
            ("empty", b""),
            ("one character", b"x"),
            ("null", b"\0"),
            ("no header", good.encode()),
            ("half a header", f"n,{good}".encode()),
            ("no name", f"n,,r={NONCE}".encode()),
            ("empty name", f"n,,n=,r={NONCE}".encode()),
            ("no nonce", f"n,,n={user}".encode()),
            ("empty nonce", f"n,,n={user},r=".encode()),
            ("other order", f"n,,r={NONCE},n={user}".encode()),
            ("unknown escape", f"n,,n={user}=2X,r={NONCE}".encode()),
            ("bare equals sign", f"n,,n={user}=,r={NONCE}".encode()),
            ("lower escape", f"n,,n={user}=2c,r={NONCE}".encode()),
            ("space in the nonce", f"n,,n={user},r=a b".encode()),
            ("no ascii", f"n,,n={user}ü,r={NONCE}".encode()),
            ("no utf-8", b"n,,n=\xff\xfe,r=abc"),
            ("line feed at the end", f"n,,{good}\n".encode()),
            ("comma at the end", f"n,,{good},".encode()),
            ("extension without a value", f"n,,{good},x=".encode()),
            ("extension with a number", f"n,,{good},1=2".encode()),
        ),
    )


@scenario(profile=SECURED)
async def channel_binding(stage: Stage) -> None:
    """Only clients without channel binding are served."""
    user = await create_user(stage, "user", SHA_256)
    headers = ("y,,", "p=tls-unique,,", "p=tls-server-end-point,,", "N,,", "x,,")
    await refused_first(stage, [(each, f"{each}n={user},r={NONCE}".encode()) for each in headers])


@scenario(profile=SECURED)
async def extensions(stage: Stage) -> None:
    """Extensions of the first message are accepted and ignored."""
    user = await create_user(stage, "user", SHA_256)
    for extra in (",x=1", ",abc=d,e=f", ",tokenauth=false"):
        one = await begun(stage, name=extra)
        await one.final(await one.first(user, extra=extra), password(user))


@scenario(profile=SECURED)
async def equals_signs_in_an_extension(stage: Stage) -> None:
    """The value of an extension may have any character but a comma."""
    user = await create_user(stage, "user", SHA_256)
    one = await begun(stage)
    await one.final(await one.first(user, extra=",x=="), password(user))


@scenario(profile=SECURED)
async def mandatory_extension(stage: Stage) -> None:
    """An extension that the server has to know (m=)."""
    user = await create_user(stage, "user", SHA_256)
    one = await begun(stage)
    await one.say(f"n,,m=x,n={user},r={NONCE}".encode())


@scenario(profile=SECURED)
async def delegation_token(stage: Stage) -> None:
    """Delegation tokens are not enabled."""
    user = await create_user(stage, "user", SHA_256)
    for value in ("true", "TRUE"):
        one = await begun(stage, name=value)
        await one.first(user, extra=f",tokenauth={value}")
        await one.client.is_hung_up()


@scenario(profile=SECURED)
async def authorization_id(stage: Stage) -> None:
    """The user's own name is accepted as authorization id, and no other."""
    user = await create_user(stage, "user", SHA_256)
    one = await begun(stage)
    header = f"n,a={user},"
    server_first = await one.first(user, gs2=header)
    binding = base64.b64encode(header.encode()).decode()
    await one.final(server_first, password(user), binding=binding)
    await works(one.client)
    for other in ("admin", user.upper(), "nobody"):
        two = await begun(stage, name="b")
        await two.first(user, gs2=f"n,a={other},")
        await two.client.is_hung_up()


@scenario(profile=SECURED)
async def empty_authorization_id(stage: Stage) -> None:
    """An authorization id that is said to be empty."""
    user = await create_user(stage, "user", SHA_256)
    one = await begun(stage)
    await one.first(user, gs2="n,a=,")
    await one.client.is_hung_up()


@scenario(profile=SECURED)
async def malformed_final_messages(stage: Stage) -> None:
    """A final message that is none."""
    proof = base64.b64encode(bytes(32))
    await refused_final(
        stage,
        ("empty", b""),
        ("one character", b"x"),
        ("no binding", b"NONCE,p=" + proof),
        ("no nonce", b"c=biws,p=" + proof),
        ("no proof", b"c=biws,NONCE"),
        ("proof that is no base64", b"c=biws,NONCE,p=!!!!"),
        ("proof without padding", b"c=biws,NONCE,p=QQ"),
        ("binding that is no base64", b"c=!!,NONCE,p=" + proof),
        ("something behind the proof", b"c=biws,NONCE,p=" + proof + b",x=1"),
        ("no utf-8", b"c=biws,NONCE,p=\xff\xfe"),
        ("the first message again", f"n,,n=x,r={NONCE}".encode()),
    )


@scenario(profile=SECURED)
async def wrong_proofs(stage: Stage) -> None:
    """A proof of zeros, and one of ones."""
    await refused_final(
        stage,
        *(
            (proof.hex()[:2], b"c=biws,NONCE,p=" + base64.b64encode(proof))
            for proof in (bytes(32), b"\xff" * 32)
        ),
    )


@scenario(profile=SECURED)
async def another_nonce(stage: Stage) -> None:
    """The nonce of the final message has to be that of the server, to the last character."""
    user = await create_user(stage, "user", SHA_256)
    for name in ("the client's alone", "another", "cut", "longer"):
        one = await begun(stage, name=name)
        server_first = await one.first(user)
        nonce = server_first.decode().split(",")[0].removeprefix("r=")
        nonces = {
            "the client's alone": NONCE,
            "another": "x" * len(nonce),
            "cut": nonce[:-1],
            "longer": f"{NONCE}{nonce}",
        }
        await one.final(server_first, password(user), nonce=nonces[name])
        await one.client.is_hung_up()


@scenario(profile=SECURED)
async def another_binding(stage: Stage) -> None:
    """The binding of the final message is signed, and not compared."""
    user = await create_user(stage, "user", SHA_256)
    for binding in ("eSws", "", "AAAA"):
        one = await begun(stage, name=binding or "none")
        server_first = await one.first(user)
        await one.final(server_first, password(user), binding=binding)


@scenario(profile=SECURED)
async def extension_of_the_final_message(stage: Stage) -> None:
    """Extensions before the proof are signed, and ignored."""
    user = await create_user(stage, "user", SHA_256)
    one = await begun(stage)
    server_first = await one.first(user)
    await one.final(server_first, password(user), extra=",x=y")


@scenario(profile=SECURED)
async def message_after_the_end(stage: Stage) -> None:
    """A third message is refused, and the session goes on."""
    user = await create_user(stage, "user", SHA_256)
    one = await begun(stage)
    await one.authenticate(user)
    await one.say(b"")
    await works(one.client)


@scenario(profile=SECURED)
async def other_request_between_the_messages(stage: Stage) -> None:
    """A request between the first and the final message is refused."""
    user = await create_user(stage, "user", SHA_256)
    asked: tuple[tuple[str, int, dict[str, Any]], ...] = (
        ("ListGroups", 4, {}),
        ("SaslHandshake", 1, {"mechanism": SHA_256}),
        ("ApiVersions", 0, {}),
        ("Heartbeat", 4, {"group_id": stage.group}),
    )
    for api, version, values in asked:
        one = await begun(stage, name=api)
        await one.first(user)
        await one.client.ask(api, version, **values)
        await one.client.is_hung_up()


@scenario(profile=SECURED)
async def deleted_user(stage: Stage) -> None:
    """A session goes on when its user is deleted; the next login fails."""
    user = await create_user(stage, "user", SHA_256)
    one = await begun(stage)
    await one.authenticate(user)
    await alter_users(stage, deletions=[{"name": user, "mechanism": 1}])
    await until_logs_in(stage, user, SHA_256, succeeds=False)
    await works(one.client)


@scenario(profile=SECURED)
async def changed_password(stage: Stage) -> None:
    """After a change of the password the old one fails, and open sessions go on."""
    user = await create_user(stage, "user", SHA_256)
    one = await begun(stage)
    await one.authenticate(user)
    await alter_users(stage, upsertions=[upsertion(user, secret=OTHER_PASSWORD)])
    await until_logs_in(stage, user, SHA_256, OTHER_PASSWORD)
    await works(one.client)
    two = await begun(stage, name="b")
    await two.authenticate(user)
    await two.client.is_hung_up()


@scenario(profile=SECURED)
async def password_changes_during_a_login(stage: Stage) -> None:
    """A login is judged by the credential that its first message found."""
    user = await create_user(stage, "user", SHA_256)
    one = await begun(stage)
    server_first = await one.first(user)
    await alter_users(stage, upsertions=[upsertion(user, secret=OTHER_PASSWORD)])
    await until_logs_in(stage, user, SHA_256, OTHER_PASSWORD)
    await one.final(server_first, password(user))
    await works(one.client)


@scenario(profile=SECURED)
async def huge_messages(stage: Stage) -> None:
    """A nonce, a proof and an extension of 50,000 characters."""
    user = await create_user(stage, "user", SHA_256)
    huge = "z" * 50_000
    one = await begun(stage)
    server_first = await one.first(user, nonce=NONCE + huge)
    await one.final(server_first, password(user), nonce=huge)
    await one.client.is_hung_up()
    two = await begun(stage, name="b")
    await two.first(user, extra=f",x={huge}")
    await two.say(f"c=biws,r=x,p={huge}".encode())
    await two.client.is_hung_up()
