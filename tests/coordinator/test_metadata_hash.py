"""Hashes of topics: those that a real Kafka 4.3 has written to its records of groups."""

from uuid import UUID

import pytest

from kohort.coordinator.metadata_hash import group_hash, topic_hash

RACK = "rÃ¤ck-1"
TOPICS = {
    "h1": (UUID("4bd878ca-8482-4c36-9959-37e467de3d0d"), 1),
    "h2": (UUID("657bb8fc-6bc9-4b91-97b9-2244e37fb531"), 3),
    "h3": (UUID("a2511302-f494-4783-8aad-3e1f07becafb"), 7),
    "H4": (UUID("ceed2d57-f46a-4169-bbf3-85e8ba28d2d8"), 100),
}


def test_the_hash_without_racks_is_that_of_kafka() -> None:
    topic_id = UUID("306139a3-8302-4274-bf6c-b7ce54c22729")
    assert group_hash({"t2": topic_hash(topic_id, "t2", 2)}) == 4787841143388530801


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["h1"], -1118451667282946521),
        (["h2"], -1483688729663348108),
        (["h1", "h2"], 2040943462404460725),
        (["h3", "H4", "h1"], 5265879314002223270),
        (["h3"], 6717694621791317805),
        ([], 0),
    ],
)
def test_hashes_with_the_rack_of_the_broker_are_those_of_kafka(
    names: list[str], expected: int
) -> None:
    hashes = {name: topic_hash(TOPICS[name][0], name, TOPICS[name][1], RACK) for name in names}
    assert group_hash(hashes) == expected
