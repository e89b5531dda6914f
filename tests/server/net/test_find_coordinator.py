"""FindCoordinator over the wire, in every version."""

import pytest

from server.net.bench import Wire
from server.net.group_requests import versions


@versions("find_coordinator")
@pytest.mark.parametrize("key_type", [0, 1])
async def test_find_coordinator_is_this_node(version: int, key_type: int) -> None:
    async with Wire() as wire:
        peer = await wire.peer()
        if version < 4:
            answer = await peer.ask("find_coordinator", version, key="", key_type=key_type)
            assert (answer.error_code, answer.node_id, answer.host, answer.port) == (
                0,
                0,
                "broker.test",
                9092,
            )
            assert getattr(answer, "error_message", "NONE") == "NONE"
            return
        answer = await peer.ask(
            "find_coordinator", version, coordinator_keys=["g", "", "g"], key_type=key_type
        )
        found = [
            (each.key, each.error_code, each.node_id, each.host, each.port)
            for each in answer.coordinators
        ]
        assert found == [(key, 0, 0, "broker.test", 9092) for key in ("g", "", "g")]
        assert answer.coordinators[0].error_message == ""


@pytest.mark.parametrize("version", range(1, 7))
@pytest.mark.parametrize("key_type", [2, 9, -1])
async def test_find_coordinator_of_a_type_that_the_version_does_not_know(
    version: int, key_type: int, caplog
) -> None:
    async with Wire() as wire:
        fields = {"key": "g"} if version < 4 else {"coordinator_keys": ["g"]}
        answer = await (await wire.peer()).ask(
            "find_coordinator", version, **fields, key_type=key_type
        )
        refused = answer if version < 4 else answer.coordinators[0]
        assert (refused.error_code, refused.node_id, refused.host, refused.port) == (42, -1, "", -1)
        # as Kafka words it
        assert bool(refused.error_message) is not (key_type == 2 and version in (4, 5))
        assert not caplog.records


async def test_find_coordinator_of_a_share_group() -> None:
    async with Wire() as wire:
        keys = ["g:AAAAAAAAQACAAAAAAAAAAA:0", "a:b:AAAAAAAAQACAAAAAAAAAAA:12", "x:y:z"]
        answer = await (await wire.peer()).ask(
            "find_coordinator", 6, coordinator_keys=keys, key_type=2
        )
        assert [(each.error_code, each.port) for each in answer.coordinators] == [
            (0, 9092),
            (0, 9092),
            (42, -1),
        ]
