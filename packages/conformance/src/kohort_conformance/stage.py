"""The tools of a scenario: fresh names, connections that record, and members of groups.

Every request says who sends it, to which API and in which version, so a scenario reads as a
conversation:

    a = await stage.client("a")
    await a.ask("Heartbeat", 4, group_id=stage.group, generation_id=1, member_id="nobody")

`ask` records the response; `quiet` does not (for what only sets the scene); `send` goes on without
the response, for requests that will be parked, and the `Parked` that it returns reads it later.
The transcript's order is the order in which the scenario asks, never that in which responses happen
to arrive.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from kohort_conformance.entities import UndecodableResponseError
from kohort_conformance.transcript import Transcript
from kohort_conformance.wire import (
    RESPONSE_SECONDS,
    HungUpError,
    RawConnection,
    SentRequest,
    SilentError,
)

SETTLE_SECONDS = 0.6
"""How long a request is given to arrive and be parked, where nothing observable tells that it was.
"""
POLL_SECONDS = 0.05
GROUP = 32
"""The resource type of groups in configs."""
NO_TOPIC = uuid.UUID(int=77)
"""An id that no topic has."""
GROUPS_OWN = 8
"""The source of a config that the group has itself."""


def how_long(seconds: float, low: float, high: float) -> str:
    """A duration as coarse as two servers, or two runs, may differ."""
    if seconds < low:
        return f"sooner than {low:g} s"
    return f"after {low:g}-{high:g} s" if seconds <= high else f"later than {high:g} s"


class SetUpError(Exception):
    """The scene could not be set; the text has a request and its response."""


class Response(Protocol):
    """A response's fields by name."""

    def __getitem__(self, name: str, /) -> Any: ...


NOTHING: dict[str, Any] = {}

Show: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


async def topic_id(client: Client, topic: str) -> uuid.UUID:
    """The id of a topic by Metadata, unrecorded; NO_TOPIC if the topic does not exist."""
    told = await client.quiet(
        "Metadata", 12, topics=[{"name": topic}], allow_auto_topic_creation=False
    )
    known = told["topics"][0]["topic_id"]
    return NO_TOPIC if known is None else uuid.UUID(known)


async def alter_group(client: Client, group: str, **configs: str) -> None:
    """Set configs of a group, unrecorded."""
    changes = [
        {"name": name, "config_operation": 0, "value": value} for name, value in configs.items()
    ]
    resource = {"resource_type": GROUP, "resource_name": group, "configs": changes}
    told = await client.quiet("IncrementalAlterConfigs", 1, resources=[resource])
    if (code := told["responses"][0]["error_code"]) != "NONE (0)":
        raise SetUpError(f"IncrementalAlterConfigs: {code}")


@dataclass
class Parked:
    """A request that was sent and whose response was not read yet."""

    stage: Stage
    call: SentRequest
    label: str

    async def response(self, seconds: float = RESPONSE_SECONDS) -> dict[str, Any]:
        """Record the response, or that there is none; without one, an empty dict comes back."""
        return await self.stage.record(self.label, self.call, seconds)

    async def response_as(self, shown: Show) -> dict[str, Any]:
        """As `response`, but record what `shown` makes of it."""
        return await self.stage.record(self.label, self.call, RESPONSE_SECONDS, shown)

    async def quiet(self, seconds: float = RESPONSE_SECONDS) -> dict[str, Any]:
        """The response, unrecorded; raises SetUpError if there is none."""
        return await self.stage.heard(self.label, self.call, seconds)

    async def still_parked(self, seconds: float = SETTLE_SECONDS) -> None:
        """Record whether the request is still without a response after a moment."""
        await asyncio.sleep(seconds)
        self.stage.note(f"{self.label} is parked", not self.call.responded)


class Client:
    """One connection with a client id."""

    def __init__(self, stage: Stage, client_id: str | None, connection: RawConnection) -> None:
        self.stage = stage
        self.client_id = client_id
        self.connection = connection

    def send(self, api: str, version: int, **values: Any) -> Parked:
        """Send and go on."""
        self.stage.transcript.sent(values)
        call = self.connection.send(api, version, values, self.client_id)
        return Parked(self.stage, call, f"{self.client_id}: {api} v{version}")

    async def ask(self, api: str, version: int, **values: Any) -> dict[str, Any]:
        """Send, and record the response."""
        return await self.send(api, version, **values).response()

    async def quiet(self, api: str, version: int, **values: Any) -> dict[str, Any]:
        """Send, and take the response without recording it."""
        return await self.send(api, version, **values).quiet()

    async def is_hung_up(self, seconds: float = 2.0) -> None:
        """Record whether the server closes this connection."""
        closed = await self.connection.closed_by_server(seconds)
        self.stage.note(f"{self.client_id}: connection closed by the server", closed)

    async def close(self) -> None:
        await self.connection.close()


class Stage:
    """One scenario's run on one server: its names, its connections, its transcript."""

    def __init__(
        self, host: str, port: int, name: str, suffix: str, user: str | None = None
    ) -> None:
        """`user` is who sets the scene, where clients log in."""
        self.user = user
        self.host = host
        self.port = port
        self.name = name
        self.suffix = suffix
        self.transcript = Transcript(suffix)
        self.groups: set[str] = set()
        self.topics: set[str] = set()
        self.users: set[str] = set()
        self.acls: list[dict[str, Any]] = []
        """Filters of the ACLs that the scenario has made."""
        self._clients: list[Client] = []

    # --- names

    @property
    def group(self) -> str:
        """The scenario's own group."""
        return self.group_named("group")

    def group_named(self, name: str) -> str:
        group = f"{self.name}-{name}{self.suffix}"
        self.groups.add(group)
        return group

    @property
    def topic(self) -> str:
        """The name of the scenario's own topic, which `create_topic` makes."""
        return self.topic_named("topic")

    def topic_named(self, name: str) -> str:
        topic = f"{self.name}-{name}{self.suffix}"
        self.topics.add(topic)
        return topic

    def user_named(self, name: str) -> str:
        """A user of the scenario's own, whose SCRAM credentials are removed after it."""
        user = f"{self.name}-{name}{self.suffix}"
        self.users.add(user)
        return user

    # --- connections

    async def client(self, client_id: str | None = "a", user: str | None = None) -> Client:
        """A new connection that says this client id, of the user who sets the scene or another.

        Every connection of a scenario should have its own.
        """
        return await self._connect(client_id, user or self.user)

    async def stranger(self, client_id: str | None = "a") -> Client:
        """A new connection that has not logged in."""
        return await self._connect(client_id, None)

    async def _connect(self, client_id: str | None, user: str | None) -> Client:
        connection = await RawConnection.open(self.host, self.port, user)
        client = Client(self, client_id, connection)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    # --- topics

    async def create_topic(self, name: str = "topic", partitions: int = 1, **configs: str) -> str:
        """Make a topic, unrecorded, and wait until all of its partitions can be used; its name.

        Configs are named with `_` for `.`. Records are kept for ever, whatever their timestamps
        say.
        """
        topic = self.topic_named(name)
        settings = {
            "retention.ms": "-1",
            **{key.replace("_", "."): value for key, value in configs.items()},
        }
        maker = await self.client("topic maker")
        response = await maker.quiet(
            "CreateTopics",
            5,
            topics=[
                {
                    "name": topic,
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "configs": [{"name": key, "value": value} for key, value in settings.items()],
                }
            ],
            timeout=10_000,
        )
        if response["topics"][0]["error_code"] != "NONE (0)":
            raise SetUpError(f"CreateTopics: {response['topics'][0]['error_code']}")
        await self.until_usable(maker, topic, partitions)
        return topic

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic, unrecorded, and wait until it can be used no more."""
        remover = await self.client("topic remover")
        await remover.quiet("DeleteTopics", 5, topic_names=[topic], timeout=10_000)
        asked = [
            {
                "name": topic,
                "partitions": [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}],
            }
        ]

        async def gone() -> bool:
            listed = await remover.quiet("ListOffsets", 5, replica_id=-1, topics=asked)
            told = await remover.quiet(
                "Metadata", 9, topics=[{"name": topic}], allow_auto_topic_creation=False
            )
            codes = [
                listed["topics"][0]["partitions"][0]["error_code"],
                told["topics"][0]["error_code"],
            ]
            return all(code == "UNKNOWN_TOPIC_OR_PARTITION (3)" for code in codes)

        await self.until(f"{topic} is gone", gone)

    async def set_group(self, group: str, **configs: str) -> None:
        """Set configs of a group, unrecorded, and wait until they are in effect."""
        await alter_group(await self.client("group maker"), group, **configs)
        await self.until_group_has(group, **configs)

    async def until_group_has(self, group: str, **configs: str | None) -> None:
        """Wait until configs of a group, or their deletion (null), are in effect."""
        watcher = await self.client("group watcher")
        resource = {"resource_type": GROUP, "resource_name": group, "configuration_keys": None}

        async def described() -> bool:
            told = await watcher.quiet("DescribeConfigs", 4, resources=[resource])
            own = {
                one["name"]: one["value"]
                for one in told["results"][0]["configs"]
                if one["config_source"] == GROUPS_OWN
            }
            return all(own.get(name) == value for name, value in configs.items())

        await self.until(f"configs of {group}", described)
        await self.settle()

    async def until_usable(self, client: Client, topic: str, partitions: int = 1) -> None:
        """Wait until Metadata lists the topic and ListOffsets succeeds for all its partitions."""

        async def usable() -> bool:
            listed = await client.quiet(
                "ListOffsets",
                5,
                replica_id=-1,
                topics=[
                    {
                        "name": topic,
                        "partitions": [
                            {"partition_index": one, "current_leader_epoch": -1, "timestamp": -1}
                            for one in range(partitions)
                        ],
                    }
                ],
            )
            told = await client.quiet(
                "Metadata", 9, topics=[{"name": topic}], allow_auto_topic_creation=False
            )
            codes = [one["error_code"] for one in listed["topics"][0]["partitions"]]
            codes += [one["error_code"] for one in told["topics"]]
            return all(code == "NONE (0)" for code in codes)

        await self.until(f"{topic} usable", usable)

    # --- the transcript

    def note(self, label: str, value: Any) -> None:
        """Record an observation (JSON's values) that is not a response as it came."""
        self.transcript.record(label, value)

    async def record(
        self, label: str, call: SentRequest, seconds: float, shown: Show = dict
    ) -> dict[str, Any]:
        try:
            response = await call.response(seconds)
        except HungUpError:
            self.transcript.record_outcome(label, "connection closed")
        except SilentError:
            self.transcript.record_outcome(label, "no answer")
        except UndecodableResponseError as error:
            self.transcript.record_outcome(label, f"undecodable: {error}")
        else:
            self.transcript.heard(response)
            self.transcript.record(label, shown(response))
            return response
        return NOTHING

    async def heard(self, label: str, call: SentRequest, seconds: float) -> dict[str, Any]:
        try:
            response = await call.response(seconds)
        except (HungUpError, SilentError, UndecodableResponseError) as error:
            raise SetUpError(f"{label}: {str(error) or 'connection closed'}") from error
        self.transcript.heard(response)
        return response

    # --- waiting

    async def until(
        self, what: str, holds: Callable[[], Awaitable[bool]], seconds: float = 15.0
    ) -> float:
        """Poll, unrecorded, until it holds; seconds that it took.

        Raises SetUpError when it never does.
        """
        began = time.monotonic()
        while not await holds():
            if time.monotonic() - began > seconds:
                raise SetUpError(f"after {seconds:g} s still not: {what}")
            await asyncio.sleep(POLL_SECONDS)
        return time.monotonic() - began

    async def settle(self, seconds: float = SETTLE_SECONDS) -> None:
        """Give what was sent the time to be parked."""
        await asyncio.sleep(seconds)
