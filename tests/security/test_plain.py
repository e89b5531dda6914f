"""SASL/PLAIN: who gets in, and that a failure tells nothing about users."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.security.plain import PlainServer
from kohort.security.sasl import Authenticated, Failed
from security.calls import calls_of

SERVER = PlainServer({"alice": "secret", "bob": "pässword", "lonely": ""})
INVALID = "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(
    ("message", "user"),
    [
        (b"\0alice\0secret", "alice"),
        (b"alice\0alice\0secret", "alice"),
        ("\0bob\0pässword".encode(), "bob"),
    ],
)
def test_a_user_with_its_password_gets_in(message: bytes, user: str) -> None:
    assert SERVER.step(message) == Authenticated(user)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"\0alice\0wrong", INVALID),
        (b"\0nobody\0secret", INVALID),
        (b"\0nobody\0a user that does not exist", INVALID),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0lonely\0", "Authentication failed: password not specified"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
        (b"alice\0secret", None),
        (b"\0alice\0secret\0", None),
        (b"", None),
        (b"\0alice\0\xff", None),
    ],
)
def test_other_messages_fail_with_the_text_of_kafka(message: bytes, text: str | None) -> None:
    outcome = SERVER.step(message)
    assert isinstance(outcome, Failed)
    assert outcome.text == text


def test_an_unknown_user_takes_the_same_work_as_a_wrong_password() -> None:
    known, unknown = (
        calls_of(partial(PlainServer({"alice": "secret"}).step, message))
        for message in (b"\0alice\0wrong", b"\0nobdy\0wrong")
    )
    assert known == unknown


@given(st.text(), st.text(min_size=1))
def test_the_reason_for_the_log_has_no_password_and_one_line(user: str, password: str) -> None:
    marked = password + "-marker"
    outcome = PlainServer({}).step(f"\0{user}\0{marked}".encode(errors="replace"))
    assert isinstance(outcome, Failed)
    assert "-marker" not in outcome.reason or "-marker" in user
    assert len(outcome.reason) < 150
    assert outcome.reason.isprintable()
