"""FindCoordinator: every version, kinds of keys, and keys that are odd."""

from __future__ import annotations

from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage


@scenario
async def group_in_every_version(stage: Stage) -> None:
    """The coordinator of a group, which need not exist."""
    a = await stage.client()
    for version in range(4):
        await a.ask("FindCoordinator", version, key=stage.group, key_type=0)
    for version in range(4, 7):
        await a.ask("FindCoordinator", version, key_type=0, coordinator_keys=[stage.group])


@scenario
async def empty_key(stage: Stage) -> None:
    """The empty group id has a coordinator."""
    a = await stage.client()
    for version in range(4):
        await a.ask("FindCoordinator", version, key="")
    await a.ask("FindCoordinator", 6, coordinator_keys=[""])


@scenario
async def many_keys(stage: Stage) -> None:
    """Each key is in the response, also those named twice."""
    a = await stage.client()
    keys = [stage.group_named(name) for name in ("one", "two", "one", "three")]
    await a.ask("FindCoordinator", 4, coordinator_keys=keys)
    await a.ask("FindCoordinator", 5, coordinator_keys=[])


@scenario
async def share_keys_before_version_6(stage: Stage) -> None:
    """Key type 2 (share) is invalid before version 6."""
    a = await stage.client()
    for version in range(1, 4):
        await a.ask("FindCoordinator", version, key="g:AAAAAAAAAAAAAAAAAAAAAA:0", key_type=2)
    for version in (4, 5):
        await a.ask(
            "FindCoordinator",
            version,
            key_type=2,
            coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAA:0", "x"],
        )


@scenario
async def unknown_key_types(stage: Stage) -> None:
    """Key types that do not exist."""
    a = await stage.client()
    for kind in (3, 9, -1):
        b = await stage.client(f"type {kind}")
        await b.ask("FindCoordinator", 3, key="x", key_type=kind)
        await b.ask("FindCoordinator", 6, key_type=kind, coordinator_keys=["x", "y"])
    await a.ask("FindCoordinator", 3, key="x")
