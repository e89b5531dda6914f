"""ApiVersions over the wire, in every version."""

import pytest

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


@pytest.mark.parametrize("version", [3, 4])
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
