"""`kohort consume -s`: pack-strings as kcat's, Avro with a schema registry, what does not fit."""

import json
import struct
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.running import Outcome, Run, runner
from kohort.cli.consume_deserializers import _avro_text
from kohort.client import ClientConfig
from kohort.client.schema_registry import SchemaRegistry
from kohort.client.serialization import SerializationContext
from kohort.client.sync import Producer, run
from kohort.testing.server_process import ServerProcess
from peers.schema_registry import SchemaRegistryStandIn

NUMBERS = count(1)
Content = bytes | None


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("server") / "server.log"
    with ServerProcess("--memory", "--dev", log=log, settings={"num.partitions": "1"}) as server:
        yield server.address


@pytest.fixture
def call(bootstrap: str, capfd: Any) -> Run:
    return runner(capfd, "-b", bootstrap)


def topic_of(bootstrap: str, *records: tuple[Content, Content], **options: Any) -> str:
    name = f"t{next(NUMBERS)}"
    with Producer(ClientConfig(bootstrap=bootstrap), **options) as producer:
        for key, value in records:
            producer.send(name, value, key=key)
    return name


def values(call: Run, bootstrap: str, pack: str, *data: Content) -> Outcome:
    topic = topic_of(bootstrap, *((None, each) for each in data))
    return call("consume", "-t", topic, "-e", "-q", "-s", f"value={pack}")


@pytest.mark.parametrize(
    ("pack", "data", "text"),
    [
        (">Iq", struct.pack(">Iq", 7, -5), "7-5"),
        ("I q", struct.pack(">Iq", 7, -5), "7 -5"),
        ("<bBhHiIqQ", struct.pack("<bBhHiIqQ", -1, 255, -2, 2, -3, 3, -4, 4), "-1255-22-33-44"),
        ("<h>h", struct.pack("<h", -2) + struct.pack(">h", -2), "-2-2"),
        ("ccs", b"ABrest", "ABrest"),
        ("i", b"\0\0\0\1 more", "1"),
        ("i$", b"\0\0\0\1", "1"),
        ("i", None, ""),
        ("i", b"", ""),
    ],
)
def test_pack_strings_deserialize_fixed_fields(
    call: Run, bootstrap: str, pack: str, data: Content, text: str
) -> None:
    assert values(call, bootstrap, pack, data) == (0, f"{text}\n", "")


def test_keys_and_values_have_each_its_own(call: Run, bootstrap: str) -> None:
    topic = topic_of(bootstrap, (b"\0\0\0\1", b"\2"))
    always = ("consume", "-t", topic, "-e", "-q", "-f", r"%k|%K|%s|%S\n")
    assert call(*always, "-s", "key=i", "-s", "value=b") == (0, "1|4|2|1\n", "")
    assert call(*always, "-s", "b") == (0, "0|4|2|1\n", "")
    assert call(*always, "-s", "b", "-s", "key=i") == (0, "1|4|2|1\n", "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-s", "value=z"), "'z' is not a token"),
        (("-s", "value="), "pack-string is empty"),
        (("-s", "avro"), "needs a schema registry, by -r URL"),
    ],
)
def test_wrong_deserializer_options_are_refused(
    call: Run, words: tuple[str, ...], told: str
) -> None:
    done = call("consume", "-t", "orders", *words)
    assert (done.exit_code, done.output) == (2, "")
    assert told in done.stderr


def test_a_record_that_does_not_fit_ends_it_behind_those_before(call: Run, bootstrap: str) -> None:
    done = values(call, bootstrap, "b", b"\1", b"", b"\2")
    assert (done.exit_code, done.output) == (0, "1\n\n2\n")
    done = values(call, bootstrap, "h", b"\0\1", b"x", b"\0\2")
    assert (done.exit_code, done.output) == (1, "1\n")
    assert "-0 at offset 1: the value is not deserialized" in done.stderr
    assert "2 bytes expected for h, but 1 remain" in done.stderr
    done = values(call, bootstrap, "b$", b"\1x")
    assert "the end expected, but 1 bytes remain" in done.stderr


def test_option_e_reports_the_error_and_writes_other_records(call: Run, bootstrap: str) -> None:
    topic = topic_of(bootstrap, *((None, data) for data in (b"\0\1", b"x", b"\0\2")))
    done = call("consume", "-t", topic, "-e", "-q", "-s", "value=h", "-E")
    assert (done.exit_code, done.output) == (0, "1\n2\n")
    assert done.stderr.startswith(f"% ERROR: {topic}-0 at offset 1: ")


def test_in_json_the_error_is_beside_the_record(call: Run, bootstrap: str) -> None:
    topic = topic_of(bootstrap, (None, b"\0\1"), (None, b"x"))
    done = call("consume", "-t", topic, "-e", "-q", "-s", "value=h", "-J")
    first, second = map(json.loads, done.output.splitlines())
    assert (done.exit_code, first["payload"], second["payload"]) == (0, "1", None)
    assert "2 bytes expected" in second["payload_error"]


def test_a_group_commits_what_is_before_a_record_that_does_not_fit(
    call: Run, bootstrap: str
) -> None:
    topic = topic_of(bootstrap, *((None, data) for data in (b"\0\1", b"x", b"\0\2")))
    group = ("consume", "-G", f"g-{topic}", "-X", "auto.offset.reset=earliest", "-q", "-e")
    done = call(*group, "-s", "value=h", topic)
    assert (done.exit_code, done.output) == (1, "1\n")
    assert call(*group, topic) == (0, "x\n\0\2\n", "")


# --- Avro

ORDER = {"item": "tea", "image": "\xff", "tags": ["a", "b"]}
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "item", "type": ["null", "string"]},
            {"name": "image", "type": "bytes"},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ],
    }
)


@pytest.fixture
def registry() -> Iterator[SchemaRegistryStandIn]:
    pytest.importorskip("fastavro", reason="pip install 'kohort[registry]'")
    with SchemaRegistryStandIn() as running:
        yield running


def avro_topic(bootstrap: str, url: str) -> str:
    name = f"t{next(NUMBERS)}"
    registry = SchemaRegistry(url)
    config = ClientConfig(bootstrap=bootstrap)
    serializer = registry.avro_serializer(SCHEMA)
    with Producer(config, value_serializer=serializer) as producer:
        producer.send(name, ORDER | {"image": b"\xff"})
        producer.send(name, None)
    run(registry.close())
    return name


def test_avro_values_become_json(
    call: Run, bootstrap: str, registry: SchemaRegistryStandIn
) -> None:
    topic = avro_topic(bootstrap, registry.url)
    always = ("consume", "-t", topic, "-e", "-q", "-s", "value=avro", "-r", registry.url)
    done = call(*always)
    assert (done.exit_code, done.stderr) == (0, "")
    first, null = done.output.splitlines()
    assert (json.loads(first), null) == (ORDER, "")
    first, null = call(*always, "-J").output.splitlines()
    assert json.loads(first)["payload"] == ORDER
    assert json.loads(first)["value_schema_id"] == 1
    assert json.loads(null)["payload"] is None


@given(st.recursive(st.floats(), st.lists))
async def test_every_number_of_avro_is_json(value: Any) -> None:
    async def deserialize(data: bytes, ctx: SerializationContext) -> Any:
        return value

    as_text: Callable[..., Awaitable[Content]] = _avro_text(deserialize)
    text = await as_text(b"\0\0\0\0\1", SerializationContext("t", "value", []))
    assert isinstance(text, bytes)
    assert as_floats(json.loads(text, parse_constant=pytest.fail)) == as_floats(value)


def as_floats(value: Any) -> Any:
    """The floats in their text, as a NaN is not equal to itself."""
    return [as_floats(each) for each in value] if isinstance(value, list) else str(float(value))


def test_avro_of_a_registry_that_is_away(
    call: Run, bootstrap: str, registry: SchemaRegistryStandIn
) -> None:
    topic = avro_topic(bootstrap, registry.url)
    with SchemaRegistryStandIn() as gone:
        pass
    done = call("consume", "-t", topic, "-e", "-q", "-s", "value=avro", "-r", gone.url)
    assert (done.exit_code, done.output) == (1, "")
    assert f"schema registry {gone.url}: unreachable" in done.stderr
    topic = topic_of(bootstrap, (None, b"plain text"))
    done = call("consume", "-t", topic, "-e", "-q", "-s", "value=avro", "-r", registry.url)
    assert "is not in Confluent's wire format" in done.stderr
