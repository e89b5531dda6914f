"""Runs scenarios against one server: many at once, each on its own names, and cleans up after them.

Scenarios that wait for timers all start at once (they cost next to nothing while they wait); the
others share a few places. A scenario that fails to set its scene keeps the steps it got and ends
with one that says so.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from kohort_conformance.entities import UndecodableResponseError
from kohort_conformance.scenario import ADMIN, SECURED, Scenario
from kohort_conformance.stage import SetUpError, Stage
from kohort_conformance.transcript import Step
from kohort_conformance.wire import HungUpError, RawConnection, SilentError

AT_ONCE = 16
SCENARIO_SECONDS = 60.0
LAST = "connections"
"""The subject with broken frames: played when all else is done, since there are servers that do not
survive it.
"""
WARM_UP_SECONDS = 60.0
SHARDS = 50
SCRAM_MECHANISMS = (1, 2)
STUCK = "could not go on"
"""The last step of a scenario that did not reach its end; its outcome says why."""
STARTING = ("(14)", "(15)", "(16)", "(5)")


class UnreachableError(Exception):
    """No Kafka protocol at the address; the text says what was seen."""


@dataclass
class Run:
    """One scenario's transcript on one server."""

    scenario: Scenario
    steps: list[Step]
    seconds: float


async def run_all(
    host: str,
    port: int,
    scenarios: Sequence[Scenario],
    *,
    at_once: int = AT_ONCE,
    done: Callable[[Run], None] = lambda _: None,
) -> list[Run]:
    """Run them; `done` hears of each as it ends. The result is in the order of `scenarios`."""
    user = user_of(scenarios)
    await warm_up(host, port, user)
    places = asyncio.Semaphore(at_once)
    token = secrets.token_hex(4)

    async def one(item: Scenario) -> Run:
        if item.waits:
            run = await play(item, host, port, token)
        else:
            async with places:
                run = await play(item, host, port, token)
        done(run)
        return run

    runs: dict[str, Run] = {}
    for last in (False, True):
        phase = [item for item in scenarios if (item.subject == LAST) is last]
        for run in await asyncio.gather(
            *(one(item) for item in sorted(phase, key=lambda item: -item.waits))
        ):
            runs[run.scenario.name] = run
    return [runs[item.name] for item in scenarios]


async def run_twice(
    host: str, port: int, scenarios: Sequence[Scenario], differs: Callable[[Run], bool]
) -> list[Run]:
    """As `run_all`, but play those once more that differ, and give their second run.

    For servers that are expected to conform: on a busy machine a timer or a test may come late, a
    wrong response is wrong twice.
    """
    first = await run_all(host, port, scenarios)
    again = [run.scenario for run in first if differs(run)]
    second = {run.scenario.name: run for run in await run_all(host, port, again)} if again else {}
    return [second.get(run.scenario.name, run) for run in first]


async def play(item: Scenario, host: str, port: int, token: str) -> Run:
    """One scenario from its first connection to the removal of what it made."""
    began = time.monotonic()
    user = user_of((item,))
    stage = Stage(host, port, item.name.replace("_", "-"), f"-{token}", user)
    try:
        async with asyncio.timeout(SCENARIO_SECONDS + item.waits):
            await item.play(stage)
    except SetUpError as error:
        stage.transcript.record_outcome(STUCK, str(error))
    except TimeoutError:
        stage.transcript.record_outcome(STUCK, "the scenario took too long")
    # a server that responds otherwise than expected must not end the suite
    except Exception as error:
        stage.transcript.record_outcome(STUCK, f"{type(error).__name__}: {error}")
    await stage.close()
    seconds = time.monotonic() - began
    with suppress(Exception):
        await clean_up(stage)
    return Run(item, stage.transcript.normalised(), seconds)


async def clean_up(stage: Stage) -> None:
    """Remove the scenario's users, members, groups and topics, as far as the server does that."""
    connection = await RawConnection.open(stage.host, stage.port, stage.user)
    try:
        async with asyncio.timeout(5):
            if stage.acls:
                await _ask(connection, "DeleteAcls", 3, filters=stage.acls)
            if stage.users:
                for kind in SCRAM_MECHANISMS:  # a user may come once in a request
                    gone = [{"name": one, "mechanism": kind} for one in stage.users]
                    await _ask(connection, "AlterUserScramCredentials", 0, deletions=gone)
            if stage.groups:
                await _remove_members(connection, stage)
                await _ask(connection, "DeleteGroups", 2, groups_names=sorted(stage.groups))
            if stage.topics:
                names = sorted(stage.topics)
                await _ask(connection, "DeleteTopics", 5, topic_names=names, timeout=5_000)
    finally:
        await connection.close()


async def _remove_members(connection: RawConnection, stage: Stage) -> None:
    described = await _ask(connection, "DescribeGroups", 5, groups=sorted(stage.groups))
    groups = [*described["groups"]]
    # not every server has consumer groups
    with suppress(HungUpError, SilentError, UndecodableResponseError):
        told = await _ask_once(
            Server(stage.host, stage.port, stage.user),
            "ConsumerGroupDescribe",
            0,
            group_ids=sorted(stage.groups),
        )
        groups += told["groups"]
    for group in groups:
        if group["members"]:
            gone = [
                {"member_id": one["member_id"], "group_instance_id": None}
                for one in group["members"]
            ]
            await _ask(connection, "LeaveGroup", 4, group_id=group["group_id"], members=gone)


class Server(NamedTuple):
    """Where a server is, and who logs in, if anybody does."""

    host: str
    port: int
    user: str | None = None


def user_of(scenarios: Sequence[Scenario]) -> str | None:
    """Who sets the scene of these, which have one profile; None: nobody logs in."""
    return ADMIN if any(one.profile == SECURED for one in scenarios) else None


async def warm_up(
    host: str, port: int, user: str | None = None, seconds: float = WARM_UP_SECONDS
) -> None:
    """Wait until the coordinator of every shard responds: a fresh Kafka needs some seconds.

    Raises UnreachableError when there is no such server.
    """
    try:
        async with asyncio.timeout(seconds):
            server = Server(host, port, user)
            await _responses(server)
            while not await _is_warm(server):  # noqa: ASYNC110 - the event is in another process
                await asyncio.sleep(0.2)
    except OSError as error:
        if isinstance(error, TimeoutError):
            raise UnreachableError(f"{host}:{port} did not get ready in {seconds:g} s") from None
        raise UnreachableError(
            f"nothing listens at {host}:{port}: {error.strerror or error}"
        ) from error


async def _responses(server: Server) -> None:
    try:
        await _ask_once(server, "ApiVersions", 0)
    except (HungUpError, SilentError, UndecodableResponseError) as error:
        raise UnreachableError(
            f"what listens at {server.host}:{server.port} does not speak Kafka's protocol"
        ) from error


async def _is_warm(server: Server) -> bool:
    """Whether no coordinator is still starting.

    A server that does not serve one of these APIs has none to wait for.
    """
    questions: list[tuple[str, int, dict[str, Any]]] = [
        ("FindCoordinator", 2, {"key": "warm-up", "key_type": 0}),
        ("DescribeGroups", 4, {"groups": _key_of_every_shard()}),
        ("FindCoordinator", 2, {"key": "warm-up", "key_type": 1}),
        ("DescribeTransactions", 0, {"transactional_ids": _key_of_every_shard()}),
        ("InitProducerId", 1, {"transactional_id": None, "transaction_timeout": 60_000}),
    ]
    for api, version, values in questions:
        with suppress(HungUpError, SilentError, UndecodableResponseError):
            response = await _ask_once(server, api, version, **values)
            codes = [
                response.get("error_code", ""),
                *(one["error_code"] for one in response.get("groups", ())),
                *(one["error_code"] for one in response.get("transaction_states", ())),
            ]
            if any(code.endswith(STARTING) for code in codes):
                return False
    return True


async def _ask_once(server: Server, api: str, version: int, **values: Any) -> dict[str, Any]:
    connection = await RawConnection.open(*server)
    try:
        return await _ask(connection, api, version, **values)
    finally:
        await connection.close()


async def _ask(connection: RawConnection, api: str, version: int, **values: Any) -> dict[str, Any]:
    return await connection.send(api, version, values, "kohort-conformance").response(seconds=10)


def _key_of_every_shard() -> list[str]:
    names: dict[int, str] = {}
    number = 0
    while len(names) < SHARDS:
        name = f"warm-up-{number}"
        names.setdefault(shard_of(name), name)
        number += 1
    return list(names.values())


def shard_of(key: str) -> int:
    """The partition of `__consumer_offsets` or `__transaction_state` that Kafka keeps a key in."""
    code = 0
    units = key.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >> 31 else code
    return 0 if signed == -(1 << 31) else abs(signed) % SHARDS
