"""SCRAM against the vectors of its RFCs, the messages that are refused, and unknown users."""

import base64
import hashlib
import hmac
import re
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.security.sasl import Authenticated, Challenge, Failed
from kohort.security.scram import (
    ScramCredential,
    ScramMechanism,
    ScramServer,
    ScramUsers,
    credential_of,
    salted_password,
)
from security.calls import calls_of
from turns import BOUND_MS, cpu_ms

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
WITHOUT_PROOF = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
PROOF = b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SIGNATURE = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def credential(kind: ScramMechanism, password: str, salt: bytes) -> ScramCredential:
    return credential_of(kind, salted_password(kind, password, salt, 4096), salt, 4096)


def users(**passwords: str) -> ScramUsers:
    known = ScramUsers()
    known.secret = b"a secret of the server"
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    for user, password in passwords.items():
        for kind in ScramMechanism:
            known.put(user, kind, credential(kind, password, salt))
    return known


USERS = users(user="pencil")


def server(kind: ScramMechanism = SHA_256, known: ScramUsers = USERS) -> ScramServer:
    return ScramServer(kind, known, SERVER_NONCE)


def final(kind: ScramMechanism, first_bare: str, server_first: str, password: str) -> bytes:
    """The client's side of RFC 5802, written down independently."""
    given = dict(part.split("=", 1) for part in server_first.split(","))
    salted = hashlib.pbkdf2_hmac(
        kind.digest, password.encode(), base64.b64decode(given["s"]), int(given["i"])
    )
    without = f"c=biws,r={given['r']}"
    client_key = hmac.digest(salted, b"Client Key", kind.digest)
    signed = f"{first_bare},{server_first},{without}".encode()
    signature = hmac.digest(hashlib.new(kind.digest, client_key).digest(), signed, kind.digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{without},p={base64.b64encode(proof).decode()}".encode()


def test_the_example_of_rfc_7677() -> None:
    authentication = server()
    assert authentication.step(FIRST) == Challenge(SERVER_FIRST)
    assert authentication.step(WITHOUT_PROOF + PROOF) == Authenticated("user", SIGNATURE)


@pytest.mark.parametrize("kind", ScramMechanism)
@pytest.mark.parametrize("user", ["alice", "a,b=c", "=2C"])
def test_a_user_with_its_password_gets_in(kind: ScramMechanism, user: str) -> None:
    known = ScramUsers()
    known.put(user, kind, credential(kind, "secret", b"salt"))
    escaped = user.replace("=", "=3D").replace(",", "=2C")
    authentication = server(kind, known)
    challenge = authentication.step(f"n,a={escaped},n={escaped},r=abc,ext=x".encode())
    assert isinstance(challenge, Challenge)
    first_bare = f"n={escaped},r=abc,ext=x"
    outcome = authentication.step(final(kind, first_bare, challenge.message.decode(), "secret"))
    assert isinstance(outcome, Authenticated)
    assert outcome.user == user


def test_a_credential_of_another_mechanism_is_none() -> None:
    known = ScramUsers()
    known.put("alice", SHA_512, credential(SHA_512, "secret", b"salt"))
    authentication = server(SHA_256, known)
    challenge = authentication.step(b"n,,n=alice,r=abc")
    assert isinstance(challenge, Challenge)
    outcome = authentication.step(
        final(SHA_256, "n=alice,r=abc", challenge.message.decode(), "secret")
    )
    assert outcome == Failed("SCRAM-SHA-256: an unknown user: 'alice'")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,n=user",
        b"n,,n=user,r=",
        b"n,,n=,r=abc",
        b"n,,r=abc,n=user",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,n=user,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=user=2,r=abc",
        b"n,,n=us\x00er,r=abc",
        "n,,n=üser,r=abc".encode(),
        b"n,,n=user,r=a bc",
        b"n,,n=user,r=abc,",
        b"n,,n=user,r=abc,ext",
        b"n,,n=user,r=abc,9=x",
        b"n,a=other,n=user,r=abc",
        b"n,,n=user,r=abc,tokenauth=true",
        b"n,,n=user,r=abc,x=y,tokenauth=True,z=1",
        b"\0user\0pencil",
    ],
)
def test_a_first_message_of_another_form_fails(message: bytes) -> None:
    assert isinstance(server().step(message), Failed)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        WITHOUT_PROOF,
        WITHOUT_PROOF + b",p=",
        WITHOUT_PROOF + b",p=AAAA",
        WITHOUT_PROOF + PROOF.replace(b"dHzb", b"dHzc"),
        WITHOUT_PROOF + PROOF[:-1],
        WITHOUT_PROOF + PROOF + b",x=y",
        # CVE-2024-56128: the nonce is the client's part only, or another one.
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO" + PROOF,
        WITHOUT_PROOF.replace(b"hvYD", b"hvYE") + PROOF,
        # What was signed is another message.
        WITHOUT_PROOF.replace(b"biws", b"eSws") + PROOF,
        WITHOUT_PROOF + b",x=y" + PROOF,
        FIRST,
    ],
)
def test_a_final_message_without_the_right_proof_fails(message: bytes) -> None:
    authentication = server()
    authentication.step(FIRST)
    assert isinstance(authentication.step(message), Failed)


def test_a_repeated_nonce_is_told_as_what_it_is() -> None:
    """librdkafka before 2.6.1 puts the client's part before a nonce that has it already."""
    authentication = server()
    authentication.step(FIRST)
    outcome = authentication.step(WITHOUT_PROOF.replace(b"r=", b"r=rOprNGfwEbeRWgbNEkqO") + PROOF)
    assert isinstance(outcome, Failed)
    assert "librdkafka does so before 2.6.1" in outcome.reason
    assert outcome.text is None


def test_failures_say_the_same_to_the_client_whether_a_user_exists() -> None:
    def outcomes(user: str) -> tuple[str, Failed]:
        authentication = server()
        challenge = authentication.step(f"n,,n={user},r=abc".encode())
        assert isinstance(challenge, Challenge)
        outcome = authentication.step(
            final(SHA_256, f"n={user},r=abc", challenge.message.decode(), "wrong")
        )
        assert isinstance(outcome, Failed)
        return re.sub("s=[^,]*", "", challenge.message.decode()), outcome

    (real, real_end), (invented, invented_end) = outcomes("user"), outcomes("nobody")
    assert real == invented
    assert real_end.text == invented_end.text is None


@pytest.mark.parametrize("kind", ScramMechanism)
def test_an_unknown_user_takes_the_same_work_as_a_wrong_password(kind: ScramMechanism) -> None:
    def work(user: str) -> list[str]:
        authentication = server(kind)
        first = calls_of(partial(authentication.step, f"n,,n={user},r=abc".encode()))
        proof = base64.b64encode(bytes(hashlib.new(kind.digest).digest_size))
        last = f"c=biws,r=abc{SERVER_NONCE},p=".encode() + proof
        return first + calls_of(partial(authentication.step, last))

    assert work("user") == work("nobd")


def test_messages_of_another_authentication_are_worth_nothing() -> None:
    proved = WITHOUT_PROOF + PROOF
    first = server()
    first.step(FIRST)
    assert isinstance(first.step(proved), Authenticated)
    later = ScramServer(SHA_256, USERS, "another nonce of the server")
    later.step(FIRST)
    assert isinstance(later.step(proved), Failed)
    other_mechanism = server(SHA_512)
    other_mechanism.step(FIRST)
    assert isinstance(other_mechanism.step(proved), Failed)


def test_an_invented_salt_is_the_same_each_time_and_of_the_size_that_most_have() -> None:
    known = users(alice="a", bob="b")
    known.put("carol", SHA_256, credential(SHA_256, "c", b"a longer salt than theirs"))
    first = known.invented("nobody", SHA_256)
    assert first == known.invented("nobody", SHA_256)
    assert len(first.salt) == 16
    assert first.salt != known.invented("somebody", SHA_256).salt
    assert first.salt != known.invented("nobody", SHA_512).salt
    for user in ("alice", "bob"):
        known.put(user, SHA_256, None)
    assert len(known.invented("nobody", SHA_256).salt) == 25
    known.secret = b"that of another server"
    assert known.invented("nobody", SHA_256).salt != first.salt


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(ScramMechanism), st.booleans())))
def test_users_are_those_that_have_a_credential(
    changes: list[tuple[str, ScramMechanism, bool]],
) -> None:
    known, expected = ScramUsers(), dict[tuple[str, ScramMechanism], ScramCredential]()
    for number, (user, kind, is_set) in enumerate(changes):
        new = credential_of(kind, b"salted", bytes(number + 1), 4096 + number)
        known.put(user, kind, new if is_set else None)
        expected.pop((user, kind), None)
        if is_set:
            expected[user, kind] = new
        found = {
            (name, of): known.of(name)[of] for name in known.snapshot() for of in known.of(name)
        }
        assert found == expected
        assert len(known) == len({name for name, _ in expected})
        forms = {
            (len(each.salt), each.iterations) for (_, of), each in expected.items() if of is kind
        }
        invented = known.invented("nobody", kind)
        assert (len(invented.salt), invented.iterations) in (forms or {(32, 4096)})


def test_the_repr_of_a_credential_shows_no_secret() -> None:
    shown = repr(credential(SHA_256, "pencil", b"salt"))
    assert shown == "<ScramCredential iterations=4096>"


LARGEST = 524_288
"""Bytes of the largest message: the default of `sasl.server.max.receive.size`."""


@pytest.mark.parametrize(
    "client_first",
    [
        b"n,,n=" + b"=2C" * (LARGEST // 3),
        b"n,,n=u,r=" + b"r" * LARGEST + b"\x7f",
        b"n,,n=u,r=r" + b",e=v" * (LARGEST // 4) + b",",
        b"n,,m=" + b"e=" * (LARGEST // 2),
    ],
)
def test_a_hostile_first_message_is_matched_in_linear_time(client_first: bytes) -> None:
    assert cpu_ms(lambda: server().step(client_first)) < BOUND_MS


@pytest.mark.parametrize(
    "client_final",
    [
        b"c=" + b"biws" * (LARGEST // 4),
        b"c=biws,r=" + b"r" * LARGEST,
        b"c=biws,r=r" + b",e=v" * (LARGEST // 4),
        b"c=biws,r=r" + b",e=v" * (LARGEST // 8) + b",p=" + b"AAAA" * (LARGEST // 8) + b"!",
    ],
)
def test_a_hostile_final_message_is_matched_in_linear_time(client_final: bytes) -> None:
    opened = server()
    opened.step(FIRST)
    assert cpu_ms(lambda: opened.step(client_final)) < BOUND_MS
