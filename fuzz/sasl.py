"""Invariant: no messages of a client raise, hang, or authenticate it without a user's secret.

    python fuzz/sasl.py [inputs]

The first byte selects the mechanism, the following ones are up to three messages.
"""

import base64
import json

from _engine import instrumented, main

with instrumented():
    from kohort.security.jwt import UnsecuredJwtValidator
    from kohort.security.oauthbearer import OAuthBearerServer
    from kohort.security.plain import PlainServer
    from kohort.security.sasl import Authenticated, Challenge, Failed, SaslServer
    from kohort.security.scram import ScramMechanism, ScramServer, ScramUsers, credential_of

SEPARATOR = b"\xfe\xff"
SALTED = bytes(range(32))
USERS = ScramUsers()
USERS.put(
    "user", ScramMechanism.SHA_256, credential_of(ScramMechanism.SHA_256, SALTED, b"salt", 4096)
)
FIRST = b"n,,n=user,r=abc"
FINAL_WITHOUT_PROOF = b"c=biws,r=abcdef"
PASSWORD = b"secret"


def _proof() -> bytes:
    import hashlib
    import hmac

    client_key = hmac.digest(SALTED, b"Client Key", "sha256")
    server_first = b"r=abcdef,s=c2FsdA==,i=4096"
    signed = b",".join((FIRST[3:], server_first, FINAL_WITHOUT_PROOF))
    signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
    return base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True)))


def _part(value: object) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")


PROOF = _proof()
TOKEN = b".".join((_part({"alg": "none"}), _part({"sub": "user", "exp": 2_000, "iat": 500}), b""))


def servers(which: int) -> tuple[SaslServer, bytes]:
    """A mechanism, and what a client cannot get in without."""
    match which % 3:
        case 0:
            return PlainServer({"user": PASSWORD.decode()}), PASSWORD
        case 1:
            # The last character before the padding has bits that are not decoded.
            return ScramServer(ScramMechanism.SHA_256, USERS, "def"), PROOF[:-2]
        case _:
            return OAuthBearerServer(UnsecuredJwtValidator(now_s=lambda: 1_000)), b"."


def seeds() -> list[bytes]:
    final = FINAL_WITHOUT_PROOF + b",p=" + PROOF
    bearer = b"n,a=user,\x01auth=Bearer %b\x01traceId=x\x01\x01"
    return [
        b"\0user\0user\0" + PASSWORD,
        b"\0\0user\0wrong",
        b"\1" + SEPARATOR.join((FIRST, final)),
        b"\1" + SEPARATOR.join((b"n,a=us=2Cer,m=x,n=us=3Der,r=abc,tokenauth=true", final)),
        b"\1" + SEPARATOR.join((FIRST, FINAL_WITHOUT_PROOF + b",ext=1,p=AAAA")),
        b"\2" + bearer % TOKEN,
        b"\2" + SEPARATOR.join((bearer % b"a.b.c", b"\x01")),
    ]


def check(data: bytes) -> None:
    server, secret = servers(data[0] if data else 0)
    messages = data[1:].split(SEPARATOR)[:3]
    for message in messages:
        outcome = server.step(message)
        assert isinstance(outcome, Challenge | Authenticated | Failed)
        if isinstance(outcome, Authenticated):
            assert outcome.user
            assert secret in data
        if isinstance(outcome, Failed):
            assert outcome.reason.isprintable()
            assert len(outcome.reason) < 300
        if not isinstance(outcome, Challenge):
            return


if __name__ == "__main__":
    main(check, seeds())
