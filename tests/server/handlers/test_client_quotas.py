"""DescribeClientQuotas and AlterClientQuotas."""

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from kohort.server.handlers.chunked import CHUNK
from kohort.server.metadata import METADATA
from server.handlers.bench import HandlerBench

ANY = 2
BY_REQUEST = ("controller_mutation_rate", "request_percentage")

Parts = Sequence[tuple[str, str | None]]
Change = tuple[str, float | None]


def entry(parts: Parts, *changes: Change) -> dict[str, Any]:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in parts],
        "ops": [
            {"key": key, "value": value or 0.0, "remove": value is None} for key, value in changes
        ],
    }


async def alter(
    bench: HandlerBench, *entries: dict[str, Any], version: int = 1, validate_only: bool = False
) -> list[tuple[Parts, ErrorCode]]:
    response = await bench.ask(
        "alter_client_quotas", version, entries=entries, validate_only=validate_only
    )
    return [
        ([(part.entity_type, part.entity_name) for part in each.entity], each.error_code)
        for each in response.entries
    ]


async def quotas(
    bench: HandlerBench, *kinds: str, strict: bool = False
) -> dict[Any, dict[str, float]]:
    asked = [{"entity_type": kind, "match_type": ANY, "match": None} for kind in kinds]
    response = await bench.ask("describe_client_quotas", 1, components=asked, strict=strict)
    assert response.error_code is ErrorCode.none
    return {
        tuple((part.entity_type, part.entity_name) for part in each.entity): {
            value.key: value.value for value in each.values
        }
        for each in response.entries
    }


@pytest.mark.parametrize(
    "described",
    [
        ["producer_byte_rate", "consumer_byte_rate", *BY_REQUEST],
        ["consumer_byte_rate", *BY_REQUEST],
        [*BY_REQUEST, "producer_byte_rate"],
        ["consumer_byte_rate", "producer_byte_rate"],
    ],
)
async def test_quotas_of_an_entity_are_in_the_order_of_apache_kafka(
    bench: HandlerBench, described: list[str]
) -> None:
    for changed in permutations(described):
        for name in changed:
            await alter(bench, entry([("user", "a")], (name, None)))
            await alter(bench, entry([("user", "a")], (name, 1.0)))
        ((_, found),) = (await quotas(bench)).items()
        assert [*found] == described


async def test_quotas_are_set_described_and_removed(bench: HandlerBench) -> None:
    for version in range(2):
        assert await alter(
            bench,
            entry([("user", "a"), ("client-id", None)], (PRODUCER_BYTE_RATE, 1000.0)),
            entry([("ip", "::1")], ("connection_creation_rate", 3.0)),
            version=version,
        ) == [
            ([("client-id", None), ("user", "a")], ErrorCode.none),
            ([("ip", "::1")], ErrorCode.none),
        ]
    client = (("client-id", None), ("user", "a"))
    address = (("ip", "::1"),)
    assert await quotas(bench) == {
        client: {PRODUCER_BYTE_RATE: 1000.0},
        address: {"connection_creation_rate": 3.0},
    }
    assert set(await quotas(bench, "user")) == {client}
    assert await quotas(bench, "user", strict=True) == {}
    bench.restart()
    await alter(bench, entry(client, (PRODUCER_BYTE_RATE, None), (CONSUMER_BYTE_RATE, 2.0)))
    assert (await quotas(bench, "user"))[client] == {CONSUMER_BYTE_RATE: 2.0}
    await alter(bench, entry(client, (CONSUMER_BYTE_RATE, None)))
    assert set(await quotas(bench)) == {address}


async def test_an_entity_is_altered_as_a_whole(bench: HandlerBench) -> None:
    invalid = ErrorCode.invalid_request
    assert await alter(
        bench,
        entry([("user", "a")], (PRODUCER_BYTE_RATE, 1.0), ("unknown", 1.0)),
        entry([("user", "b")], (PRODUCER_BYTE_RATE, 1.0)),
        entry([("user", "b")], (PRODUCER_BYTE_RATE, 2.0)),
        entry([("user", "c")], (PRODUCER_BYTE_RATE, 1.0), (PRODUCER_BYTE_RATE, 2.0)),
        entry([]),
        entry([("user", "d")], (PRODUCER_BYTE_RATE, 1.0)),
    ) == [
        ([("user", "a")], invalid),
        ([("user", "b")], invalid),
        ([("user", "c")], invalid),
        ([], invalid),
        ([("user", "d")], ErrorCode.none),
    ]
    assert await quotas(bench) == {(("user", "d"),): {PRODUCER_BYTE_RATE: 1.0}}


async def test_a_validated_quota_is_not_set(bench: HandlerBench) -> None:
    change = entry([("user", "a")], (PRODUCER_BYTE_RATE, 1.0))
    assert await alter(bench, change, validate_only=True) == [([("user", "a")], ErrorCode.none)]
    assert await quotas(bench) == {}


async def test_a_change_that_the_disk_refuses(bench: HandlerBench) -> None:
    change = entry([("user", "a")], (PRODUCER_BYTE_RATE, 1.0))
    bench.directory.fail("append", METADATA)
    ((_, error),) = await alter(bench, change)
    assert error is ErrorCode.kafka_storage_error
    assert await quotas(bench) == {}


async def test_all_quotas_are_told_as_of_one_moment(bench: HandlerBench) -> None:
    first, last = (("user", "0"),), (("user", str(2 * CHUNK)),)
    many = (entry([("user", str(n))], (PRODUCER_BYTE_RATE, 1.0)) for n in range(2 * CHUNK + 1))
    await alter(bench, *many)
    exchange, task = bench.begin("describe_client_quotas", 1, components=(), strict=False)
    assert task is not None  # half of the entities were looked at
    bench.controller.writer.commit(
        *bench.controller.client_quotas.alter_quotas(
            {each: {PRODUCER_BYTE_RATE: 2.0} for each in (first, last)}
        )
    )
    await task
    assert {value.value for each in exchange.outcome.entries for value in each.values} == {1.0}


async def test_many_entities_are_altered_in_few_appends(bench: HandlerBench) -> None:
    many = [entry([("user", f"u{number}")], (PRODUCER_BYTE_RATE, 1.0)) for number in range(1_000)]
    before = bench.controller.writer.last_change
    assert {error for _, error in await alter(bench, *many)} == {ErrorCode.none}
    assert bench.controller.writer.last_change - before < 10
    before = bench.controller.writer.last_change
    assert {error for _, error in await alter(bench, *many)} == {ErrorCode.none}
    assert bench.controller.writer.last_change == before, "nothing has changed"


async def test_long_names_are_altered_together(bench: HandlerBench) -> None:
    names = ["\N{GRINNING FACE}" * 8_000 + str(number) for number in range(20)]
    many = [entry([("user", name)], (PRODUCER_BYTE_RATE, 1.0)) for name in names]
    assert {error for _, error in await alter(bench, *many)} == {ErrorCode.none}
    bench.restart()
    assert len(await quotas(bench)) == 20


async def test_many_quotas_are_set_and_a_huge_entry_is_refused(bench: HandlerBench) -> None:
    many = [entry([("user", f"u{number}")], (PRODUCER_BYTE_RATE, 1.0)) for number in range(1_200)]
    assert {error for _, error in await alter(bench, *many)} == {ErrorCode.none}
    assert len(await quotas(bench)) == 1_200
    wide = entry([("user", "w")] * 5_000, *((f"k{number}", 1.0) for number in range(5_000)))
    assert [error for _, error in await alter(bench, wide)] == [ErrorCode.invalid_request]
