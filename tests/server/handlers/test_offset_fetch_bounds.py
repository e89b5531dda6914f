"""OffsetFetch of many groups: one response in the order of the request, and no group twice."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kohort.coordinator.responses import FetchedOffset, OffsetFetchResponse
from kohort.errors import ErrorCode
from kohort.protocol.building import request
from kohort.protocol.messages import decode_request, encode
from kohort.server.handlers import offset_fetch
from runtime.test_turns import loaded, log_of, many
from server.handlers.bench import HandlerBench, Unread
from turns import BOUND_MS, longest_turn_ms


class Committed:
    """Groups with so many offsets each; every second response comes a turn later."""

    def __init__(self, offsets: int) -> None:
        self.offsets = offsets
        self.asked: list[str] = []

    def submit(self, request: Any) -> None:
        self.asked.append(request.group)
        response = OffsetFetchResponse(
            offsets=tuple(FetchedOffset("orders", n, n + 7) for n in range(self.offsets))
        )
        if request.group == "unknown":
            response = OffsetFetchResponse(error=ErrorCode.not_coordinator)
        if len(self.asked) % 2:
            request.on_response(response)
        else:
            asyncio.get_running_loop().call_soon(request.on_response, response)


def groups(*names: str) -> list[dict[str, Any]]:
    return [{"group_id": name, "topics": None} for name in names]


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("count", [1, 2, 3, 200])
async def test_each_group_has_its_entry_in_order(
    bench: HandlerBench, version: int, count: int
) -> None:
    bench.groups = Committed(3)
    names = [f"g{n}" for n in range(count)]
    response = await bench.ask("offset_fetch", version, groups=groups(*names))
    assert [group.group_id for group in response.groups] == names
    for each in response.groups:
        (topic,) = each.topics
        assert [p.committed_offset for p in topic.partitions] == [7, 8, 9]


@pytest.mark.parametrize("version", range(1, 8))
async def test_each_partition_says_that_another_coordinator_has_to_be_asked(
    bench: HandlerBench, version: int
) -> None:
    bench.groups = Committed(3)
    topics = [{"name": "orders", "partition_indexes": [0, 1]}]
    response = await bench.ask("offset_fetch", version, group_id="unknown", topics=topics)
    (topic,) = response.topics
    errors = [partition.error_code for partition in topic.partitions]
    assert errors == [ErrorCode.not_coordinator] * 2
    assert version == 1 or response.error_code == ErrorCode.not_coordinator


async def test_no_groups_at_all(bench: HandlerBench) -> None:
    response = await bench.ask("offset_fetch", 8, groups=[])
    assert response.groups == ()


async def test_a_group_that_is_named_again_is_refused_in_a_large_response(
    bench: HandlerBench,
) -> None:
    bench.groups = Committed(1_000)
    response = await bench.ask("offset_fetch", 8, groups=groups(*["g"] * 400, "unknown", "h"))
    *errors, unknown, other = [group.error_code for group in response.groups]
    asked = len(bench.groups.asked) - 2
    assert 20 < asked < 100
    assert errors == [ErrorCode.none] * asked + [ErrorCode.invalid_request] * (400 - asked)
    assert (unknown, other) == (ErrorCode.not_coordinator, ErrorCode.none)


OFFSETS = [
    FetchedOffset("orders", 0, 7, 3, "some text"),
    *(FetchedOffset("orders", n, n + 7) for n in range(1, 1_000)),
    FetchedOffset("orders", 1_000, error=ErrorCode.unstable_offset_commit),
    FetchedOffset("gone", 1, 5),
    *(FetchedOffset("other", n, n) for n in range(3)),
]


class Everything:
    """The offsets of a very large group."""

    def __iter__(self) -> Iterator[FetchedOffset]:
        return iter(OFFSETS)


class Large:
    """Every group has these offsets."""

    def __init__(self, offsets: Any) -> None:
        self.offsets = offsets

    def submit(self, request: Any) -> None:
        assert request.partitions is None
        request.on_response(OffsetFetchResponse(offsets=self.offsets))


@pytest.mark.parametrize("version", range(2, 11))
async def test_very_many_offsets_are_encoded_as_few_are(bench: HandlerBench, version: int) -> None:
    for name in ("orders", "other"):
        bench.controller.topics.create(name, 1)
    asked = {"topics": None, "group_id": "g"} if version < 8 else {"groups": groups("g")}
    packed = []
    for offsets in (tuple(OFFSETS), Everything()):
        bench.groups = Large(offsets)
        exchange, task = bench.begin("offset_fetch", version, **asked)
        assert task is not None
        await task
        packed.append(exchange.packed)
    assert packed[0] == packed[1]


@pytest.mark.parametrize("version", [8, 10])
async def test_a_very_large_group_among_others(bench: HandlerBench, version: int) -> None:
    bench.controller.topics.create("orders", 1)
    bench.groups = Large(Everything())
    response = await bench.ask("offset_fetch", version, groups=groups("a", "b"))
    assert [group.group_id for group in response.groups] == ["a", "b"]
    assert [len(group.topics) for group in response.groups] == [3 if version < 10 else 1] * 2


async def test_all_offsets_of_a_very_large_group(bench: HandlerBench) -> None:
    bench.groups = await loaded(log_of(many(["t", "u"], 25_000)))
    exchange = Unread(9, 9)
    decoded = decode_request(9, 9, encode(request(9, 9, groups=groups("g"))))
    worst, _ = await longest_turn_ms(
        offset_fetch.handle(bench.services, exchange, decoded)  # type: ignore[arg-type]
    )
    print(f"{worst:.0f} ms")
    assert sum(map(len, exchange.outcome)) > 50_000 * 20
    await bench.groups.close()
    assert worst < BOUND_MS
