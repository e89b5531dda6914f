# mypy: disable-error-code="call-arg, misc"
"""Arguments that public classes do not take: the error names them, and says what to write."""

import inspect
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from kohort import client
from kohort.client import (
    Admin,
    ClientConfig,
    Cluster,
    ConfigError,
    Consumer,
    ConsumerGroup,
    DeadLetters,
    Fetcher,
    GroupConfig,
    GroupMetadata,
    OffsetAndMetadata,
    Producer,
    Security,
    sync,
)
from kohort.client.config import ProducerConfig
from kohort.client.properties import option_names

REQUIRED: dict[Any, Callable[[], dict[str, Any]]] = {
    Admin: dict,
    ClientConfig: dict,
    Cluster: dict,
    Consumer: dict,
    ConsumerGroup: lambda: {"group_id": "g", "topics": ["t"]},
    DeadLetters: lambda: {"producer": Producer(), "topic": "t"},
    Fetcher: lambda: {"cluster": Cluster()},
    GroupConfig: lambda: {"group_id": "g", "topics": ["t"]},
    Producer: dict,
    Security: dict,
    sync.Consumer: dict,
    sync.ConsumerGroup: lambda: {"group_id": "g", "topics": ["t"]},
    sync.Producer: dict,
}
"""Each class that applications create with options, and what it cannot be created without."""
VALUES: dict[Any, Callable[[], dict[str, Any]]] = {
    GroupMetadata: lambda: {"group_id": "g"},
    OffsetAndMetadata: lambda: {"offset": 5},
}
"""Values, which are checked where they are used."""
NONSENSE = [
    *(b"x", ["x"], ("x",), {"a": "b"}, 5, -1, 1.5, float("nan"), 10**30, True),
    *(timedelta(seconds=1), object(), "\udc80", [None], [5], [b"x"]),
]
TAKEN = {
    "acks": ["-1"],
    "assignors": ["['x']", "('x',)"],  # a GroupConfig does not look for them
    "check_crcs": ["True"],
    "enable_auto_commit": ["True"],
    "enable_idempotence": ["True"],
    "extensions": ["{'a': 'b'}"],
    "leave_group_on_close": ["True"],
    "linger_ms": ["5", "1.5"],
    "metadata_cluster_check_enable": ["True"],
    "retention_ms": ["-1"],
    "password": [r"'\udc80'"],
    "ssl_check_hostname": ["True"],
    "ssl_password": [r"'\udc80'"],
    "topics": ["['x']", "('x',)"],
    "username": [r"'\udc80'"],
}
"""Of these, what an option may be."""
NUMBERS = ("_ms", "_bytes", "_size", "_memory", "_offset", "_reset", "_connection", "_per_broker")
"""Ends of the names of options that may be 5."""
NAMED_OTHERWISE = {
    "assignors": "assignor",
    "auto_offset_reset": "start_offset (auto_offset_reset)",
    "cluster": "Cluster",
    "config": "ClientConfig",
}
"""Option → how its error calls it."""


def parameters(of: Any) -> Iterable[str]:
    for name, each in list(inspect.signature(of.__init__).parameters.items())[1:]:
        if each.kind is each.VAR_KEYWORD:
            yield from get_args(each.annotation)[0].__annotations__
        elif name != "connections":  # of tests
            yield name


def options() -> list[Any]:
    return [
        pytest.param(of, name, id=f"{of.__module__}.{of.__name__}.{name}")
        for of in REQUIRED
        for name in sorted(parameters(of))
    ]


def refusal(of: Any, arguments: dict[str, Any]) -> str | None:
    """The text of the ConfigError; None if the arguments are taken."""
    try:
        of(**arguments)
    except ConfigError as error:
        return str(error)
    return None


@pytest.mark.parametrize(("of", "name"), options())
async def test_a_value_of_a_wrong_type_is_refused_by_the_name_of_its_option(
    of: Any, name: str
) -> None:
    required = REQUIRED[of]()
    for value in NONSENSE:
        told = refusal(of, required | {name: value})
        if told is None:
            is_number = value == 5 and name.endswith(NUMBERS)
            assert is_number or repr(value) in TAKEN.get(name, ())
        else:
            assert NAMED_OTHERWISE.get(name, name) in told


@pytest.mark.parametrize("of", [*REQUIRED, *VALUES])
async def test_arguments_by_position_are_refused_with_an_example(of: Any) -> None:
    required = (REQUIRED | VALUES)[of]()
    for positions in (("x", "orders"), ("x", ["orders"], {"a": 1})):
        with pytest.raises(ConfigError, match="arguments are given by position") as info:
            of(*positions)
        assert f"; write {of.__name__}(" in str(info.value)
    for name in required.keys() - {"topics"}:
        with pytest.raises(ConfigError, match=f"^{of.__name__}: {name} is missing; write "):
            of(**{each: value for each, value in required.items() if each != name})


@pytest.mark.parametrize(
    ("create", "told"),
    [
        (lambda: ConsumerGroup("billing", "orders"), "only group_id may be; write ConsumerGroup("),
        (lambda: ConsumerGroup("orders", group_id="billing"), "group_id is given twice, by pos"),
        (lambda: ClientConfig("localhost:9092"), "1 argument is given by position, all have to"),
        (lambda: Producer("localhost:9092", acks=1), "such as bootstrap='localhost:9092'"),
        (lambda: sync.Producer({"bootstrap.servers": "a:1"}), "such as bootstrap='localhost:9092'"),
        (lambda: OffsetAndMetadata(5, "read"), "write OffsetAndMetadata(offset=5"),
        (lambda: OffsetAndMetadata(offset=5, metadat=""), "; did you mean metadata?"),
        (lambda: Producer(api_version=(2, 0)), "; each connection requests the versions"),
        (lambda: Producer(retries=3), "; requests are retried for default_api_timeout_ms"),
        (lambda: ConsumerGroup("g", topics=["t"], acks=1), "acks; it is an option of Producer"),
        (lambda: Consumer(session_timeout_ms=1), "; it is an option of ConsumerGroup"),
        (lambda: Producer(fetch_min_bytes=1), "; it is an option of Consumer and ConsumerGroup"),
        (lambda: Producer(client_dns_lookup="x"), "; all addresses of a name are tried"),
        (lambda: Producer(sasl_kerberos_name="x"), "; there is no Kerberos (GSSAPI)"),
        (lambda: Producer(ssl_ciphers="x"), "; give it to an ssl.SSLContext"),
        (lambda: Security(username="me", password="…"), "set protocol to SASL_SSL or SASL_PLAIN"),
        (lambda: Security(protocol="SSL", ssl_cafile=Path("no.pem")).context(), "with no.pem: "),
        (lambda: Security(ssl_cafile="ca.pem"), "or leave out ssl_cafile"),
    ],
)
def test_habits_of_other_clients(create: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigError) as info:
        create()
    assert told in str(info.value)


def test_hints_name_options_that_the_classes_have() -> None:
    table: Any = option_names
    by_name = {of.__name__: of for of in (ClientConfig, Consumer, ConsumerGroup, Producer)}
    checked = 0
    for name, hint in table._INSTEAD.items():
        if hint.startswith(("it is an option of", "pass it to")) and name != "topic":
            for owner in re.findall(r"\w+", hint.partition(";")[0].replace("(", " (")):
                if owner in by_name:
                    checked += 1
                    assert {name, f"client_{name}"} & set(parameters(by_name[owner]))
    assert checked > 40
    assert {each for each in table._BY_NAME if not hasattr(client, each)} == set()


def test_no_secret_is_told() -> None:
    for name in ("password", "ssl_password", "ssl_certdata"):
        with pytest.raises(ConfigError) as info:
            Security(**{name: b"s3cret"})  # type: ignore[arg-type]
        assert str(info.value) == f"{name}: a str is needed, not bytes"


def peers() -> list[Any]:
    return [
        ("aiokafka", "AIOKafkaConsumer", [Consumer, ConsumerGroup]),
        ("aiokafka", "AIOKafkaProducer", [Producer]),
        ("kafka", "KafkaConsumer", [Consumer, ConsumerGroup, sync.ConsumerGroup]),
        ("kafka", "KafkaProducer", [Producer, sync.Producer]),
        ("kafka", "KafkaAdminClient", [Admin]),
    ]


@pytest.mark.parametrize(("module", "name", "here"), peers())
def test_every_option_of_another_client_is_here_or_has_a_certain_hint(
    module: str, name: str, here: list[Any]
) -> None:
    theirs = getattr(pytest.importorskip(module), name)
    names = getattr(theirs, "DEFAULT_CONFIG", None) or inspect.signature(theirs.__init__).parameters
    table: Any = option_names
    for of in here:
        for option in names.keys() - set(parameters(of)) - {"self", "topics"}:
            with pytest.raises(ConfigError) as info:
                of(**REQUIRED[of]() | {option: None})
            assert "did you mean" not in str(info.value)
            assert "; " in str(info.value) or option in table._NOTHING_LIKE_IT


@pytest.mark.parametrize("public", [Producer, Consumer, ConsumerGroup, Admin, sync.Producer])
def test_help_shows_every_option_with_its_default(public: type) -> None:
    shown = inspect.signature(public).parameters
    assert shown["bootstrap"].default == ClientConfig().bootstrap
    assert not any(each.kind is each.VAR_KEYWORD for each in shown.values())
    if "acks" in shown:
        assert shown["acks"].default == ProducerConfig().acks
