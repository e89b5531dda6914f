"""Methods by the names that other clients give them: the error says what to call instead."""

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from kohort.client import Admin, Consumer, ConsumerGroup, Producer, sync
from kohort.client.method_names import (
    ADMIN,
    CONSUMER,
    GROUP,
    NOTHING_LIKE_IT,
    PRODUCER,
    SYNC_GROUP,
    MethodHints,
)

HINTS: dict[type, Any] = {
    Consumer: CONSUMER,
    sync.Consumer: CONSUMER,
    ConsumerGroup: GROUP,
    sync.ConsumerGroup: SYNC_GROUP,
    Producer: PRODUCER,
    sync.Producer: PRODUCER,
    Admin: ADMIN,
}


def error(owner: type, name: str) -> str:
    with pytest.raises(AttributeError) as info:
        getattr(object.__new__(owner), name)
    return str(info.value)


@pytest.mark.parametrize(
    ("owner", "name", "told"),
    [
        (Consumer, "subscribe", "members share topics by ConsumerGroup(group_id, topics=[…])"),
        (Consumer, "poll", "; iterate over the consumer, or call next_batch(max_wait_ms=…)"),
        (Consumer, "seek_to_begining", "; did you mean seek_to_beginning?"),
        (ConsumerGroup, "getone", "; iterate over the group"),
        (sync.ConsumerGroup, "consume", "; iterate over the group"),
        (sync.ConsumerGroup, "poll", "; iterate over the group, or over group.batches("),
        (sync.ConsumerGroup, "seek_to_end", "; seek goes there"),
        (Producer, "start", "; there is nothing to start: enter its block"),
        (sync.Producer, "produce", "; send(topic, value, key=…) queues a record"),
        (Admin, "list_topics", "; describe_topics() is its name here"),
    ],
)
def test_methods_of_other_clients(owner: type, name: str, told: str) -> None:
    text = error(owner, name)
    assert text.startswith(f"{owner.__name__} has no attribute {name};")
    assert told in text


@pytest.mark.parametrize("owner", HINTS)
@pytest.mark.parametrize(
    "name", ["__nonsense__", "_nonsense", "qqqqqqqqqqq", *sorted(NOTHING_LIKE_IT)]
)
def test_names_that_nobody_has(owner: type, name: str) -> None:
    assert error(owner, name) == f"{owner.__name__} has no attribute {name}"
    assert not hasattr(object.__new__(owner), name)


@pytest.mark.parametrize("owner", HINTS)
def test_a_hint_is_for_a_name_that_is_missing(owner: type) -> None:
    assert [name for name in HINTS[owner] if hasattr(owner, name)] == []


def test_a_property_that_fails_says_why() -> None:
    class Broken(MethodHints):
        @property
        def state(self) -> object:
            return object().nonsense  # type: ignore[attr-defined]

    assert error(Broken, "state") == "'object' object has no attribute 'nonsense'"


def peers() -> Iterator[tuple[str, str, list[type]]]:
    readers: list[type] = [Consumer, ConsumerGroup, sync.ConsumerGroup]
    yield "aiokafka", "AIOKafkaConsumer", readers
    yield "aiokafka", "AIOKafkaProducer", [Producer]
    yield "confluent_kafka", "Consumer", readers
    yield "confluent_kafka", "Producer", [Producer]
    yield "confluent_kafka.admin", "AdminClient", [Admin]
    yield "kafka", "KafkaConsumer", readers
    yield "kafka", "KafkaProducer", [Producer]
    yield "kafka", "KafkaAdminClient", [Admin]


@pytest.mark.parametrize(("module", "name", "here"), list(peers()))
def test_every_method_of_another_client_is_here_or_has_a_hint(
    module: str, name: str, here: list[type]
) -> None:
    theirs = getattr(pytest.importorskip(module), name)
    methods = {each for each in dir(theirs) if not each.startswith("_")}
    methods = {method for method in methods if callable(getattr(theirs, method))} - NOTHING_LIKE_IT
    for owner in here:
        assert {method for method in methods if not hasattr(owner, method)} <= HINTS[owner].keys()


@pytest.mark.parametrize(
    "package", ["kohort.assignors", "kohort.client", "kohort.columnar", "kohort.testing"]
)
def test_names_that_are_imported_when_used_are_listed(package: str) -> None:
    module = importlib.import_module(package)
    assert set(module.__all__) <= set(dir(module))
