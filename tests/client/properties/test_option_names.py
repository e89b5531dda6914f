# mypy: disable-error-code="call-arg"
"""Options by the names that Kafka and other clients give them: the error says what is meant."""

from dataclasses import fields
from typing import Any

import pytest

from kohort.client import (
    Admin,
    ClientConfig,
    Cluster,
    ConfigError,
    Consumer,
    ConsumerGroup,
    GroupConfig,
    GroupOptions,
    Producer,
    Security,
)
from kohort.client.config import (
    ClientOptions,
    ConnectionOptions,
    ConsumerConfig,
    ConsumerOptions,
    ProducerConfig,
    ProducerOptions,
    StartOffset,
)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"auto.offset.reset": "earliest"}, "; start_offset is its name here"),
        ({"session.timeout.ms": 6_000}, "; session_timeout_ms is its name here"),
        ({"bootstrap_servers": "a:1"}, "; bootstrap is its name here"),
        ({"group.instance.id": "a"}, "; instance_id is its name here"),
        ({"sasl_mechanism": "PLAIN"}, "; give security=Security(protocol=…"),
        ({"value_serializer": str}, "; it is an option of Producer"),
        ({"sesion_timeout_ms": 6_000}, "; did you mean session_timeout_ms?"),
    ],
)
def test_options_of_a_group(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as info:
        ConsumerGroup("g", topics=["t"], **options)
    assert str(info.value).startswith(f"ConsumerGroup has no option {next(iter(options))}{told}")


@pytest.mark.parametrize(
    ("create", "told"),
    [
        (lambda: ClientConfig(bootstrap_servers="a:1"), "bootstrap_servers; bootstrap is its name"),
        (lambda: ClientConfig(group_id="g"), "group_id; it is an option of Consumer and Consumer"),
        (lambda: Producer(bootstrap_servers="a:1"), "bootstrap_servers; bootstrap is its name"),
        (lambda: Admin(bootstrap_servers="a:1"), "bootstrap_servers; bootstrap is its name"),
        (lambda: Cluster(brokers="a:1"), "brokers; bootstrap is its name"),
        (lambda: Producer(ClientConfig(), compression_type="gzip"), "; compression is its name"),
        (lambda: Producer(ClientConfig(), linger=5), "linger; did you mean linger_ms"),
        (
            lambda: Producer(partitioner_rack_aware=True),
            "; Producer takes a function as partitioner",
        ),
        (lambda: Producer(buffer_memory_allocation_strategy="full"), "; memory is taken when"),
        (lambda: Admin(bootstrap_resolve_timeout_ms=5), "; default_api_timeout_ms limits"),
        (lambda: Consumer(ClientConfig(), topics=["t"]), "; it is an option of ConsumerGroup;"),
        (lambda: Producer(start_offset="first"), "; it is an option of Consumer and ConsumerGroup"),
        (lambda: Security(sasl_plain_username="me"), "; username is its name here"),
        (lambda: GroupConfig(group_id="g", pattern="a", client_rack="r"), "; rack is its name"),
    ],
)
def test_options_of_the_other_classes(create: Any, told: str) -> None:
    with pytest.raises(ConfigError) as info:
        create()
    assert told in str(info.value)


@pytest.mark.parametrize(("given", "start"), [("earliest", "first"), ("latest", "last")])
def test_kafkas_names_of_start_offsets(given: Any, start: str) -> None:
    assert GroupConfig(group_id="g", topics=["t"], start_offset=given).start == start
    assert ConsumerGroup("g", topics=["t"], auto_offset_reset=given).config.start == start
    with pytest.raises(ConfigError, match="start_offset and auto_offset_reset are one option"):
        ConsumerGroup("g", topics=["t"], start_offset=given, auto_offset_reset=given)


def test_the_typed_options_of_a_group_are_all_that_there_are() -> None:
    mine = {each.name: each.type for each in fields(GroupConfig)}
    client = {each.name: each.type for each in fields(ClientConfig)}
    parameters = {"group_id", "topics", "pattern"}
    assert GroupOptions.__annotations__ == {
        name: type for name, type in (client | mine).items() if name not in parameters
    } | {"auto_offset_reset": StartOffset}
    apart = {"max_in_flight_requests_per_connection"}
    assert ConnectionOptions.__annotations__.keys() == client.keys() - apart
    assert ClientOptions.__annotations__ == client


@pytest.mark.parametrize(
    ("options", "config", "of_client", "also"),
    [
        (ProducerOptions, ProducerConfig, ConnectionOptions, {}),
        (ConsumerOptions, ConsumerConfig, ClientOptions, {"auto_offset_reset": StartOffset}),
    ],
)
def test_the_typed_options_of_producer_and_consumer_are_all_that_there_are(
    options: Any, config: Any, of_client: Any, also: dict[str, Any]
) -> None:
    own = {each.name: each.type for each in fields(config)}
    assert options.__annotations__ == of_client.__annotations__ | own | also
