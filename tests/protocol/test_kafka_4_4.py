"""The classes of Apache Kafka 4.4 that kio lacks, beside the bytes that Kafka's own have."""

import re
from base64 import urlsafe_b64decode
from typing import Any
from uuid import UUID

import pytest

from kohort.protocol import kafka_4_4
from kohort.protocol.apis import BY_NAME
from kohort.protocol.building import request, response
from kohort.protocol.message_classes import (
    API_NAMES,
    known_versions,
    load_request_schema,
    load_response_schema,
    versions_of_kio,
)
from kohort.protocol.messages import encode
from kohort.protocol.reading import reader
from protocol.kafka_4_4_messages import MESSAGES, recorded


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def python_value(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [python_value("", each) for each in value]
    if isinstance(value, dict):
        return {snake_case(key): python_value(key, each) for key, each in value.items()}
    if name == "topicId":
        return UUID(bytes=urlsafe_b64decode(f"{value}==")) if value.strip("A") else None
    return value


@pytest.mark.parametrize(
    ("name", "version", "values", "kafka_bytes"),
    [(*message, each) for message, each in zip(MESSAGES, recorded(), strict=True)],
)
def test_the_bytes_are_those_of_kafka(
    name: str, version: int, values: dict[str, Any] | None, kafka_bytes: bytes
) -> None:
    api, kind = re.fullmatch("(.*)(Request|Response)", name).groups()
    key = BY_NAME[snake_case(api)].key
    build = request if kind == "Request" else response
    message = build(key, version, **python_value("", values or {}))
    assert encode(message) == kafka_bytes
    assert reader(type(message))(kafka_bytes, 0) == message


def test_every_class_has_recorded_bytes() -> None:
    defined = {
        (load(*case).__name__, case[1])
        for case in kafka_4_4.VERSIONS
        for load in (load_request_schema, load_response_schema)
    }
    assert {(name, version) for name, version, _ in MESSAGES} == defined


def test_kio_does_not_have_these_classes_yet() -> None:
    # Remove a class from kohort.protocol.kafka_4_4 once kio has it, the package with its last one.
    for api_key, version in kafka_4_4.VERSIONS:
        assert version not in versions_of_kio(api_key), f"kio has {API_NAMES[api_key]} v{version}"
        assert known_versions(api_key)[1] == version
