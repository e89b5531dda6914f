"""InitProducerId v0-5."""

from typing import Any

import pytest

from kohort.errors import ErrorCode
from server.handlers.bench import HandlerBench


async def ask(bench: HandlerBench, version: int = 5, **fields: Any) -> tuple[ErrorCode, int, int]:
    response = await bench.ask("init_producer_id", version, **{"transactional_id": None} | fields)
    return response.error_code, response.producer_id, response.producer_epoch


@pytest.mark.parametrize("version", range(6))
async def test_a_new_id_each_time_over_restarts_too(bench: HandlerBench, version: int) -> None:
    seen = set()
    for _ in range(3):
        error, producer_id, epoch = await ask(bench, version)
        assert (error, epoch) == (ErrorCode.none, 0)
        seen.add(producer_id)
        bench.restart()
    assert len(seen) == 3


async def test_a_producer_that_says_who_it_was_gets_a_new_id(bench: HandlerBench) -> None:
    error, producer_id, epoch = await ask(bench, producer_id=5, producer_epoch=3)
    assert (error, epoch) == (ErrorCode.none, 0)
    assert producer_id != 5


@pytest.mark.parametrize(
    "fields",
    [
        {"transactional_id": ""},
        {"producer_id": 5, "producer_epoch": -1},
        {"producer_id": -1, "producer_epoch": 3},
    ],
)
async def test_an_empty_transactional_id_or_half_a_producer_id_is_invalid(
    bench: HandlerBench, fields: dict[str, Any]
) -> None:
    assert await ask(bench, **fields) == (ErrorCode.invalid_request, -1, -1)
