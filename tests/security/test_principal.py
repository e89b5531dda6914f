"""Principals as text."""

import pytest

from kohort.security import ANONYMOUS, KafkaPrincipal


def test_a_principal_is_its_type_and_name() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"
    assert KafkaPrincipal.parse("User:CN=a:b,O=c") == ("User", "CN=a:b,O=c")


@pytest.mark.parametrize("text", ["alice", ":alice", "User:", ""])
def test_text_that_is_no_principal(text: str) -> None:
    with pytest.raises(ValueError, match="is not TYPE:NAME"):
        KafkaPrincipal.parse(text)
