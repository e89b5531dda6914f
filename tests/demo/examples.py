"""What the server's HTTP port says of a group in the middle of a show, with one member killed."""

from typing import Any

from kohort_demo.group import GroupState, group_state

ENDS = {0: 1_000, 1: 500, 2: 0}
STARTED = 1_700_000_000.0
"""Of the show: seconds since the epoch."""


def member(name: str, *partitions: int) -> dict[str, Any]:
    assignment = [{"topic": "flights", "partitions": list(partitions)}] if partitions else []
    return {
        "member_id": f"{name}-7f1c",
        "instance_id": None,
        "client_id": name,
        "client_host": "/127.0.0.1",
        "assignment": assignment,
    }


def rebalance(
    generation: int, what: str, *names: str, at: float, outcome: str = "stable", members: int = 3
) -> dict[str, Any]:
    started = int((STARTED + at) * 1000)
    return {
        "generation": generation,
        "causes": [
            {"what": what, "member_id": f"{n}-7f1c", "client_id": n, "reason": ""} for n in names
        ],
        "outcome": outcome,
        "started": started,
        "joined": started + 1_000,
        "ended": started + 1_250,
        "join_ms": 1_000,
        "sync_ms": 250,
        "members": [f"member-{number}" for number in range(members)],
        "awaited": [],
    }


def told() -> dict[str, Any]:
    def offset(topic: str, partition: int, committed: int) -> dict[str, Any]:
        return {"topic": topic, "partition": partition, "committed_offset": committed, "lag": None}

    return {
        "group_id": "counters-1",
        "state": "Stable",
        "type": "classic",
        "protocol_type": "consumer",
        "protocol": "cooperative-sticky",
        "generation": 2,
        "leader": "member-1-7f1c",
        "members": [member("member-2", 1), member("member-1", 2, 0), member("member-3")],
        "offsets": [offset("flights", 0, 400), offset("flights", 1, 500), offset("other", 0, 7)],
        "lag": 600,
        "journal": [
            rebalance(1, "joined", "member-1", "member-2", at=0.5, members=2),
            rebalance(2, "expired", "member-2", at=9.0),
        ],
    }


def group() -> GroupState:
    return group_state("counters-1", told(), "flights", ENDS)
