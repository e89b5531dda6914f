"""SASL exchanges against what the RFCs say, with a broker that answers each message."""

import base64
import hashlib
import hmac
from collections.abc import Callable

import pytest

from kohort.client.errors import AuthenticationError
from kohort.client.security import Security
from kohort.client.security import settings as security
from kohort.client.security.settings import scram
from kohort.security.scram import ScramMechanism
from kohort.security.scram_client import MAX_ITERATIONS


async def spoken(exchange: security.Exchange, *answers: bytes) -> list[bytes]:
    """What the client says, the answers given one by one."""
    said = [await anext(exchange)]
    for answer in answers:
        try:
            said.append(await exchange.asend(answer))
        except StopAsyncIteration:
            break
    return said


async def test_scram_sha_256_as_in_rfc_7677() -> None:
    exchange = scram(ScramMechanism.SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    first = (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert await spoken(exchange, first, final) == [
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    ]


SALT = base64.b64encode(b"salt").decode()


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([b"r=other,s=%s,i=4096" % SALT.encode()], "did not respond to our nonce"),
        ([b"r=nonce,s=%s,i=4096" % SALT.encode()], "did not respond to our nonce"),
        ([b"r=nonce+,i=4096"], "no salt"),
        ([b"r=nonce+,s=!!!,i=4096"], "no salt"),
        ([b"r=nonce+,s=%s,i=1000" % SALT.encode()], "4096 to"),
        ([b"r=nonce+,s=%s,i=%d" % (SALT.encode(), MAX_ITERATIONS + 1)], "iterations"),
        ([b"r=nonce+,s=%s,i=4096" % SALT.encode(), b"e=unknown-user"], "unknown-user"),
        ([b"r=nonce+,s=%s,i=4096" % SALT.encode(), b"v=AAAA"], "not whom it says"),
        ([b"r=nonce+,s=%s,i=4096" % SALT.encode(), b""], "not whom it says"),
    ],
)
async def test_scram_servers_that_are_not_believed(answers: list[bytes], told: str) -> None:
    with pytest.raises(AuthenticationError, match=told):
        await spoken(scram(ScramMechanism.SHA_512, "user", "secret", "nonce"), *answers)


async def test_scram_escapes_names() -> None:
    exchange = scram(ScramMechanism.SHA_256, "a=b,c", "x", "nonce")
    assert await spoken(exchange) == [b"n,,n=a=3Db=2Cc,r=nonce"]


def scram_server(digest: str, password: str) -> Callable[[bytes], bytes]:
    """A server that holds every step against RFC 5802."""
    said: list[str] = []

    def answer(message: bytes) -> bytes:
        text = message.decode()
        if not said:
            bare = text.removeprefix("n,,")
            nonce = dict(part.split("=", 1) for part in bare.split(","))["r"]
            said.extend((bare, f"r={nonce}server,s={SALT},i=4096"))
            return said[1].encode()
        without_proof, _, proof = text.rpartition(",p=")
        salted = hashlib.pbkdf2_hmac(digest, password.encode(), b"salt", 4096)
        signed = ",".join((*said, without_proof)).encode()
        key = hmac.digest(salted, b"Client Key", digest)
        expected = hmac.digest(hashlib.new(digest, key).digest(), signed, digest)
        if bytes(a ^ b for a, b in zip(base64.b64decode(proof), expected, strict=True)) != key:
            return b"e=invalid-proof"
        server = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
        return b"v=" + base64.b64encode(server)

    return answer


async def test_plain_sends_the_user_and_password_in_utf_8() -> None:
    wanted = Security(protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="ü", password="p")
    assert await spoken(wanted.exchange(), b"") == ["\0ü\0p".encode()]


async def test_oauthbearer_asks_for_a_fresh_token_each_time() -> None:
    tokens = iter(("one", "two"))

    async def source() -> str:
        return next(tokens)

    wanted = Security(
        protocol="SASL_SSL",
        mechanism="OAUTHBEARER",
        token=source,
        extensions={"logicalCluster": "lkc-1"},
    )
    assert await spoken(wanted.exchange(), b"") == [
        b"n,,\x01auth=Bearer one\x01logicalCluster=lkc-1\x01\x01"
    ]
    assert await spoken(wanted.exchange(), b"") == [
        b"n,,\x01auth=Bearer two\x01logicalCluster=lkc-1\x01\x01"
    ]


@pytest.mark.parametrize(
    ("answer", "told"), [(b'{"status":"invalid_token"}', "invalid_token"), (b"no", "no")]
)
async def test_oauthbearer_that_is_refused(answer: bytes, told: str) -> None:
    wanted = Security(protocol="SASL_SSL", mechanism="OAUTHBEARER", token=lambda: "t")
    with pytest.raises(AuthenticationError, match=told):
        await spoken(wanted.exchange(), answer)
