"""ApiVersions over the wire, in every version."""

import pytest

from kohort.errors import ErrorCode
from kohort.protocol.apis import APIS
from server.net.bench import Wire
from server.net.group_requests import versions


@versions("api_versions")
async def test_api_versions_lists_every_api_in_every_version(version: int) -> None:
    async with Wire() as wire:
        answer = await (await wire.peer()).ask(
            "api_versions",
            version,
            client_software_name="kafka-python",
            client_software_version="3.0.12",
        )
        assert answer.error_code == 0
        assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [
            (api.key, api.advertised_from, api.max_version) for api in APIS.values()
        ]
        produce = answer.api_keys[0]
        assert (produce.api_key, produce.min_version, produce.max_version) == (0, 0, 13)


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(
    ("name", "software_version"),
    [("", "1"), ("a b", "1"), ("a", "-x"), ("a_b", "1"), ("a", ""), ("a\n", "1")],
)
async def test_software_names_that_kafka_refuses(
    version: int, name: str, software_version: str
) -> None:
    async with Wire() as wire:
        peer = await wire.peer()
        names = {"client_software_name": name, "client_software_version": software_version}
        answer = await peer.ask("api_versions", version, **names)
        assert (answer.error_code, answer.api_keys) == (42, ())
        names = {"client_software_name": "a", "client_software_version": "2.1-dirty"}
        assert (await peer.ask("api_versions", version, **names)).error_code == 0


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, ErrorCode.none),
        ("cluster", 0, ErrorCode.none),
        ("another", 0, ErrorCode.rebootstrap_required),
        ("cluster", 1, ErrorCode.rebootstrap_required),
        ("cluster", -2, ErrorCode.rebootstrap_required),
        ("", 0, ErrorCode.rebootstrap_required),
        ("cluster", -1, ErrorCode.invalid_request),
        ("", -1, ErrorCode.invalid_request),
        (None, 0, ErrorCode.invalid_request),
        (None, -2, ErrorCode.invalid_request),
    ],
)
async def test_another_node_than_the_expected_one_has_the_client_rebootstrap(
    cluster_id: str | None, node_id: int, error: ErrorCode
) -> None:
    """The outcomes of Apache Kafka 4.4."""
    software = {"client_software_name": "test", "client_software_version": "1"}
    async with Wire() as wire:
        peer = await wire.peer()
        answer = await peer.ask(
            "api_versions", 5, **software, cluster_id=cluster_id, node_id=node_id
        )
        assert answer.error_code is error
        assert bool(answer.api_keys) is (error is ErrorCode.none)
        assert (await peer.ask("api_versions", 5, **software)).error_code is ErrorCode.none


async def test_the_names_of_the_software_count_more_than_the_expected_node() -> None:
    async with Wire() as wire:
        answer = await (await wire.peer()).ask(
            "api_versions",
            5,
            client_software_name="",
            client_software_version="1",
            cluster_id="another",
            node_id=0,
        )
        assert answer.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("version", [6, 99])
async def test_a_later_version_is_answered_with_the_served_ones(version: int) -> None:
    async with Wire() as wire:
        peer = await wire.peer()
        peer.send(peer.frame("api_versions", version, b""))
        assert await peer.content() == bytes.fromhex("00000001 0023 00000001 0012 0000 0005")
