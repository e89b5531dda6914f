"""OffsetFetch of many groups: one response in the order of the request, and no group twice."""

import asyncio
from typing import Any

import pytest

from kohort.coordinator.responses import FetchedOffset, OffsetFetchResponse
from kohort.errors import ErrorCode
from server.handlers.bench import Bench


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
            request.request_id(response)
        else:
            asyncio.get_running_loop().call_soon(request.request_id, response)


def groups(*names: str) -> list[dict[str, Any]]:
    return [{"group_id": name, "topics": None} for name in names]


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("count", [1, 2, 3, 200])
async def test_each_group_has_its_entry_in_order(bench: Bench, version: int, count: int) -> None:
    bench.groups = Committed(3)
    names = [f"g{n}" for n in range(count)]
    response = await bench.ask("offset_fetch", version, groups=groups(*names))
    assert [each.group_id for each in response.groups] == names
    for each in response.groups:
        (topic,) = each.topics
        assert [p.committed_offset for p in topic.partitions] == [7, 8, 9]


async def test_no_groups_at_all(bench: Bench) -> None:
    response = await bench.ask("offset_fetch", 8, groups=[])
    assert response.groups == ()


async def test_a_group_that_is_named_again_is_refused_in_a_large_response(bench: Bench) -> None:
    bench.groups = Committed(1_000)
    response = await bench.ask("offset_fetch", 8, groups=groups(*["g"] * 400, "unknown", "h"))
    *errors, unknown, other = [each.error_code for each in response.groups]
    asked = len(bench.groups.asked) - 2
    assert 20 < asked < 100
    assert errors == [ErrorCode.none] * asked + [ErrorCode.invalid_request] * (400 - asked)
    assert (unknown, other) == (ErrorCode.not_coordinator, ErrorCode.none)
