"""Requests of the group APIs over the wire, in every version, and what tests read of responses."""

import uuid
from typing import Any

import pytest

from kohort.protocol.apis import BY_NAME
from server.net.bench import Peer, Wire

OTHER_ID = uuid.UUID(int=7)


def versions(api: str) -> pytest.MarkDecorator:
    served = BY_NAME[api]
    return pytest.mark.parametrize("version", range(served.min_version, served.max_version + 1))


async def submitted(wire: Wire, peer: Peer, api: str, version: int, /, **fields: Any) -> Any:
    """The one request that the core gets."""
    before = len(wire.groups.submitted)
    peer.send(peer.request(api, version, **fields))
    await wire.until(lambda: len(wire.groups.submitted) > before)
    assert len(wire.groups.submitted) == before + 1
    return wire.groups.submitted[-1]


def to_commit(partition: int, offset: int, **more: Any) -> dict[str, Any]:
    return {"partition_index": partition, "committed_offset": offset, **more}


def codes(topics: Any) -> list[tuple[Any, list[tuple[int, int]]]]:
    """(topic as the version names it, (partition, error)...)."""
    return [
        (
            each.name if hasattr(each, "name") else each.topic_id,
            [
                (partition.partition_index, int(partition.error_code))
                for partition in each.partitions
            ],
        )
        for each in topics
    ]
