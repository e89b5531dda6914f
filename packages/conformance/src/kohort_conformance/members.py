"""Members of classic groups as scenarios play them, with the state that a client library keeps.

A `PlayedMember` knows its id, generation and leader from the responses it got, and fills requests
with them; every field can be said otherwise in the call (`member.heartbeat(generation_id=7)`). The
`joining`/`syncing` forms send and go on, `join`/`sync` record the response. `stable` sets the
scene: a synced group of so many members, unrecorded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kohort_conformance.stage import Client, Parked, SetUpError, Stage

SESSION_MS = 30_000
REBALANCE_MS = 30_000
REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS (27)"
MEMBER_ID_REQUIRED = "MEMBER_ID_REQUIRED (79)"
NONE = "NONE (0)"


def subscription(*topics: str, user_data: bytes = b"", version: int = 0) -> bytes:
    """A consumer's subscription, its protocol metadata (versions 1-3 with empty extra fields)."""
    body = struct.pack(">hi", version, len(topics)) + b"".join(_string(topic) for topic in topics)
    body += struct.pack(">i", len(user_data)) + user_data
    body += struct.pack(">i", 0) if version >= 1 else b""
    body += struct.pack(">i", -1) if version >= 2 else b""
    return body + (struct.pack(">h", -1) if version >= 3 else b"")


def assignment(topic: str = "t", *partitions: int) -> bytes:
    """A consumer's assignment of partitions of one topic."""
    listed = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return struct.pack(">hi", 0, 1) + _string(topic) + listed + struct.pack(">i", 0)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def protocols(*names: str, metadata: bytes = subscription("t")) -> list[dict[str, Any]]:
    """A member's protocol list in its order of preference, the same metadata under each name."""
    return [{"name": name, "metadata": metadata} for name in names]


@dataclass
class Joining(Parked):
    """A JoinGroup whose response the member learns from."""

    member: PlayedMember

    async def response(self, seconds: float = 20.0) -> dict[str, Any]:
        return self.member.learn(await super().response(seconds))

    async def quiet(self, seconds: float = 20.0) -> dict[str, Any]:
        return self.member.learn(await super().quiet(seconds))


@dataclass
class PlayedMember:
    """One member of one group on its own connection."""

    client: Client
    group: str
    instance: str | None = None
    protocol_type: str = "consumer"
    protocols: Sequence[Mapping[str, Any]] = field(default_factory=lambda: protocols("range"))
    session_ms: int = SESSION_MS
    rebalance_ms: int = REBALANCE_MS
    version: int = 9
    id: str = ""
    generation: int = -1
    leader: str = ""
    protocol: str | None = None

    @property
    def stage(self) -> Stage:
        return self.client.stage

    @property
    def leads(self) -> bool:
        return self.leader == self.id

    def learn(self, response: dict[str, Any]) -> dict[str, Any]:
        """Remember what a JoinGroup response says."""
        if response.get("error_code") in (NONE, MEMBER_ID_REQUIRED):
            self.id = response["member_id"]
            self.generation = response["generation_id"]
            self.leader = response["leader"]
            self.protocol = response.get("protocol_name")
        return response

    # --- joining

    def joining(self, version: int | None = None, **values: Any) -> Joining:
        """Send JoinGroup and go on."""
        version = self.version if version is None else version
        request = {
            "group_id": self.group,
            "session_timeout": self.session_ms,
            "rebalance_timeout": self.rebalance_ms,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": self.protocol_type,
            "protocols": self.protocols,
            **values,
        }
        parked = self.client.send("JoinGroup", version, **request)
        return Joining(parked.stage, parked.call, parked.label, self)

    async def join(self, version: int | None = None, **values: Any) -> dict[str, Any]:
        """JoinGroup, recorded."""
        return await self.joining(version, **values).response()

    async def handshake(self, version: int | None = None) -> PlayedMember:
        """Get a member id (KIP-394), unrecorded.

        A static member, or one of an old version, needs none.
        """
        version = self.version if version is None else version
        if not self.id and self.instance is None and version >= 4:
            await self.joining(version).quiet()
            if not self.id:
                raise SetUpError("the member id handshake gave no member id")
        return self

    # --- the rest of a member's life

    def syncing(
        self, version: int = 5, assignments: Mapping[str, bytes] | None = None, **values: Any
    ) -> Parked:
        """Send SyncGroup and go on; `assignments` by member id."""
        listed = [
            {"member_id": one, "assignment": data} for one, data in (assignments or {}).items()
        ]
        request = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol,
            "assignments": listed,
            **values,
        }
        return self.client.send("SyncGroup", version, **request)

    async def sync(
        self, version: int = 5, assignments: Mapping[str, bytes] | None = None, **values: Any
    ) -> dict[str, Any]:
        """SyncGroup, recorded."""
        return await self.syncing(version, assignments, **values).response()

    def beating(self, version: int = 4, **values: Any) -> Parked:
        request = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            **values,
        }
        return self.client.send("Heartbeat", version, **request)

    async def heartbeat(self, version: int = 4, **values: Any) -> dict[str, Any]:
        """Heartbeat, recorded."""
        return await self.beating(version, **values).response()

    def leaving(self, version: int = 5, **values: Any) -> Parked:
        one = {"member_id": self.id, "group_instance_id": self.instance}
        request = {"group_id": self.group, "member_id": self.id, "members": [one], **values}
        return self.client.send("LeaveGroup", version, **request)

    async def leave(self, version: int = 5, **values: Any) -> dict[str, Any]:
        """LeaveGroup, recorded."""
        return await self.leaving(version, **values).response()

    def committing(
        self, topic: str, offsets: Mapping[int, int], version: int = 9, **values: Any
    ) -> Parked:
        """Send OffsetCommit and go on.

        `generation` may be said instead of the request's longer name.
        """
        request = {
            "group_id": self.group,
            "generation_id_or_member_epoch": values.pop("generation", self.generation),
            "member_id": self.id,
            "group_instance_id": self.instance,
            "retention_time": -1,
            "topics": [committed(topic, offsets)],
            **values,
        }
        return self.client.send("OffsetCommit", version, **request)

    async def commit(
        self, topic: str, offsets: Mapping[int, int], version: int = 9, **values: Any
    ) -> dict[str, Any]:
        """OffsetCommit, recorded."""
        return await self.committing(topic, offsets, version, **values).response()

    # --- seen from outside, unrecorded

    async def hears_of_rebalance(self) -> bool:
        """Whether a heartbeat gets 27: a join or a leave of somebody else has arrived."""
        response = await self.beating().quiet()
        return bool(response["error_code"] == REBALANCE_IN_PROGRESS)


def committed(topic: str, offsets: Mapping[int, int], **values: Any) -> dict[str, Any]:
    """One topic of an OffsetCommit."""
    return {
        "name": topic,
        "partitions": [
            {
                "partition_index": one,
                "committed_offset": offset,
                "committed_leader_epoch": -1,
                **values,
            }
            for one, offset in offsets.items()
        ],
    }


async def member(stage: Stage, client_id: str = "a", **values: Any) -> PlayedMember:
    """A member to be, on a connection of its own; it has sent nothing."""
    values.setdefault("group", stage.group)
    values.setdefault(
        "protocols", protocols("range", metadata=subscription("t", user_data=client_id.encode()))
    )
    return PlayedMember(await stage.client(client_id), **values)


async def stable(stage: Stage, *client_ids: str, **values: Any) -> list[PlayedMember]:
    """A Stable group of these members, the first one leads.

    Every member's assignment is its client id.
    """
    members = [await member(stage, client_id, **values) for client_id in client_ids]
    await gather_round(members)
    await sync_all(members)
    return members


async def static_group(stage: Stage, *names: str, **values: Any) -> list[PlayedMember]:
    """As `stable`, each member static under the instance id "i-" and its client id."""
    members = [await member(stage, name, instance=f"i-{name}", **values) for name in names]
    await gather_round(members)
    await sync_all(members)
    return members


async def gather_round(members: Sequence[PlayedMember]) -> None:
    """Have them join one after the other, so that the first leads.

    The last generation is left to be synced.
    """
    await members[0].handshake()
    await members[0].joining().quiet()
    for count in range(1, len(members)):
        newcomer = await members[count].handshake()
        parked = newcomer.joining()
        await until_rebalancing(members[0])
        await rejoin(members[:count], parked)


async def look(client: Client, group: str, version: int = 5) -> dict[str, Any]:
    """DescribeGroups of one group, recorded."""
    return await client.ask("DescribeGroups", version, groups=[group])


async def until_state(
    client: Client, group: str, state: str, members: int | None = None, seconds: float = 15.0
) -> float:
    """Wait, unrecorded, until the group is described in this state (with so many members).

    Seconds that it took.
    """

    async def is_so() -> bool:
        described = (await client.quiet("DescribeGroups", 5, groups=[group]))["groups"][0]
        return described["group_state"] == state and members in (None, len(described["members"]))

    return await client.stage.until(f"{state} with {members} members", is_so, seconds)


async def until_rebalancing(one: PlayedMember) -> None:
    """Wait until this member's heartbeats get 27."""
    await one.stage.until("a rebalance under way", one.hears_of_rebalance)


async def rejoin(members: Iterable[PlayedMember], *parked: Joining) -> None:
    """Have all of them join the rebalance that is under way, unrecorded.

    `parked` are those that joined already.
    """
    for call in [*(one.joining() for one in members), *parked]:
        response = await call.quiet()
        if response["error_code"] != NONE:
            raise SetUpError(f"{call.label}: {response['error_code']}")


async def sync_all(members: Sequence[PlayedMember]) -> None:
    """The leader hands every member its client id as assignment, unrecorded."""
    given = {one.id: str(one.client.client_id).encode() for one in members}
    calls = [one.syncing(assignments=given if one.leads else None) for one in members]
    for call in calls:
        response = await call.quiet()
        if response["error_code"] != NONE:
            raise SetUpError(f"{call.label}: {response['error_code']}")
