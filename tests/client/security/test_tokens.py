"""Sources of tokens, in the forms of several clients."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kohort.client.errors import AuthenticationError, BrokerUnreachableError
from kohort.client.security import Security
from kohort.client.security.tokens import Token, token_of, validate_source
from kohort.errors import ConfigError

EXTENSIONS = {"logicalCluster": "lkc-1"}
ALL = {"token": "t", "lifetime": 1.5e9, "principal": "ann", "extensions": EXTENSIONS}
PLAIN = Token(value="t")
EXTENDED = Token(value="t", extensions=EXTENSIONS)


@pytest.mark.parametrize(
    ("given", "token"),
    [
        ("t", PLAIN),
        (("t", 1.5e9), PLAIN),
        (("t", 1.5e9, "ann"), PLAIN),
        (("t", 1.5e9, "ann", EXTENSIONS), EXTENDED),
        (["t", 1.5e9, "", None], PLAIN),
        (ALL, EXTENDED),
        ({"token": "t"}, PLAIN),
        (SimpleNamespace(**ALL), EXTENDED),
    ],
)
async def test_a_token_function_may_return_any_known_form(given: Any, token: Token) -> None:
    async def coroutine(_config: str) -> Any:
        return given

    functions: list[Callable[..., Any]] = [
        lambda: given, lambda _config: given, lambda config="": given, lambda *_, **__: given,
        coroutine,
    ]  # fmt: skip
    assert [await token_of(function) for function in functions] == [token] * len(functions)


class OfKafkaPython:
    """As kafka-python's AbstractTokenProvider."""

    def token(self) -> str:
        return "t"

    def extensions(self) -> dict[str, str]:
        return EXTENSIONS


class OfAiokafka:
    """As aiokafka's."""

    async def token(self) -> str:
        return "t"


async def test_providers_of_other_clients() -> None:
    assert [await token_of(each) for each in (OfKafkaPython(), OfAiokafka())] == [EXTENDED, PLAIN]


async def test_extensions_of_a_token_join_those_of_the_configuration() -> None:
    security = Security(
        protocol="SASL_SSL",
        mechanism="OAUTHBEARER",
        token=lambda: ("t", 0, "", {"b": "token", "c": "token"}),
        extensions={"a": "given", "b": "given"},
    )
    message = await anext(security.exchange())
    assert message == b"n,,\x01auth=Bearer t\x01a=given\x01b=token\x01c=token\x01\x01"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", "the token is empty; give a token as a string"),
        (None, "the token is a NoneType; give"),
        (b"s3cret", "the token is a bytes"),
        ((), "the token is a NoneType"),
        ({"access_token": "s3cret"}, "the token is a NoneType"),
        (("s3cret", 0, "ann", "ab"), "extensions are no mapping"),
        (("s3cret", 0, "ann", {"a": 1}), "extensions are no mapping"),
    ],
)
async def test_an_invalid_token_is_a_final_error_without_the_secret(given: Any, told: str) -> None:
    with pytest.raises(AuthenticationError, match=f"OAUTHBEARER: {told}") as raised:
        await token_of(lambda: given)
    assert "s3cret" not in str(raised.value)


async def test_a_source_that_fails_is_asked_again() -> None:
    def fail() -> str:
        raise OSError("no route")

    with pytest.raises(BrokerUnreachableError, match=r"its source raised .*no route"):
        await token_of(fail)


@pytest.mark.parametrize("source", ["a token", lambda one, two: "t", lambda one, *, two: "t"])
def test_a_token_source_of_another_kind_is_refused(source: Any) -> None:
    with pytest.raises(ConfigError, match=r"token is a (str|function with several arguments): it "):
        validate_source(source)
    with pytest.raises(ConfigError):
        Security(protocol="SASL_SSL", mechanism="OAUTHBEARER", token=source)
