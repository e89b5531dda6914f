"""The table of APIs against kio's schemas."""

import pytest
from kio.schema.index import api_key_map

from kohort.protocol.apis import API_VERSIONS, APIS, BY_NAME
from kohort.protocol.message_classes import load_request_schema, load_response_schema


def test_only_produce_is_advertised_below_what_is_served() -> None:
    assert [api.name for api in APIS.values() if api.advertised_from != api.min_version] == [
        "produce"
    ]
    assert not BY_NAME["produce"].serves(2)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_names_and_encodings_are_those_of_the_schemas(api) -> None:
    assert api_key_map[api.key] == api.name
    for version in range(api.min_version, api.max_version + 1):
        for load in (load_request_schema, load_response_schema):
            assert load(api.key, version).__flexible__ is api.flexible(version)


def test_versions_at_the_edges() -> None:
    heartbeat = BY_NAME["heartbeat"]
    assert [heartbeat.serves(version) for version in (-1, 0, 4, 5)] == [False, True, True, False]
    assert APIS[API_VERSIONS].name == "api_versions"
