"""OffsetDelete of very many partitions: the response of few, in turns that hold up nobody."""

from typing import Any

import pytest

from kohort.coordinator.responses import OffsetDeleteResponse
from kohort.errors import ErrorCode
from kohort.protocol.building import request
from kohort.protocol.messages import decode_request, encode
from kohort.server.handlers import offset_delete
from runtime.test_turns import loaded, log_of, many
from server.handlers.bench import HandlerBench, Unread
from turns import BOUND_MS, longest_turn_ms


class Deleted:
    """Every third partition belongs to a subscribed topic."""

    def __init__(self, error: ErrorCode = ErrorCode.none) -> None:
        self.error = error
        self.asked: list[int] = []

    def submit(self, request: Any) -> None:
        self.asked.append(len(request.partitions))
        codes = (ErrorCode.none, ErrorCode.none, ErrorCode.group_subscribed_to_topic)
        results = tuple(
            (partition, codes[partition.partition % 3]) for partition in request.partitions
        )
        if self.error:
            results = ()
        request.on_response(OffsetDeleteResponse(error=self.error, results=results))


def topics(*asked: tuple[str, range]) -> list[dict[str, Any]]:
    return [
        {"name": name, "partitions": [{"partition_index": n} for n in indexes]}
        for name, indexes in asked
    ]


@pytest.mark.parametrize(
    "asked",
    [
        (("t", range(900)), ("u", range(900))),
        (("u", range(890, 910)), ("none", range(3)), ("t", range(900)), ("u", range(900))),
        (("none", range(1_500)),),
    ],
)
async def test_the_response_is_that_of_few(
    bench: HandlerBench, monkeypatch: pytest.MonkeyPatch, asked: tuple[tuple[str, range], ...]
) -> None:
    for name in ("t", "u"):
        bench.controller.topics.create(name, 900)
    bench.groups = many_at_once = Deleted()
    response = await bench.ask("offset_delete", 0, group_id="g", topics=topics(*asked))
    assert max(many_at_once.asked) <= 1_000
    bench.groups = Deleted()
    monkeypatch.setattr(offset_delete, "PARTITIONS_PER_TURN", 10_000)
    assert response == await bench.ask("offset_delete", 0, group_id="g", topics=topics(*asked))


async def test_an_error_of_the_group(bench: HandlerBench) -> None:
    bench.controller.topics.create("t", 2_000)
    bench.groups = Deleted(ErrorCode.group_id_not_found)
    response = await bench.ask("offset_delete", 0, group_id="g", topics=topics(("t", range(2_000))))
    assert response.error_code is ErrorCode.group_id_not_found
    assert response.topics == ()


async def test_all_offsets_of_a_very_large_group(bench: HandlerBench) -> None:
    for name in ("t", "u"):
        bench.controller.topics.create(name, 10_000)
    bench.groups = await loaded(log_of(many(["t", "u"], 10_000)))
    asked = topics(("t", range(10_000)), ("u", range(10_000)))
    decoded = decode_request(47, 0, encode(request(47, 0, group_id="g", topics=asked)))
    handling = offset_delete.handle(bench.services, Unread(47, 0), decoded)  # type: ignore[arg-type]
    assert handling is not None
    worst, _ = await longest_turn_ms(handling)
    print(f"{worst:.0f} ms")
    assert not bench.groups.group("g").offsets
    await bench.groups.close()
    assert worst < BOUND_MS
