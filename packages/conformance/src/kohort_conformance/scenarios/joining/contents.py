"""Types, protocols, metadata, timeouts and reasons that are taken as they are."""

from __future__ import annotations

from kohort_conformance.members import look, member, protocols, stable
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage


@scenario
async def type_of_an_empty_group_changes(stage: Stage) -> None:
    """A group whose members left takes another protocol type and other protocols.

    Generations go on.
    """
    [a] = await stable(stage, "a")
    await a.leave()
    b = await (
        await member(stage, "b", protocol_type="connect", protocols=protocols("sessioned"))
    ).handshake()
    await b.join()
    await look(b.client, stage.group)


@scenario
async def any_type_and_bytes(stage: Stage) -> None:
    """The coordinator does not look into the metadata of types other than "consumer"."""
    a = await member(
        stage, protocol_type="sr", protocols=protocols("v0", "v1", metadata=b"\xff\x00{json}")
    )
    await a.join()
    await a.join()
    await a.sync(assignments={a.id: b""})
    await look(a.client, stage.group)


@scenario
async def empty_metadata(stage: Stage) -> None:
    """Metadata of no bytes is fine."""
    a = await member(stage, protocol_type="connect", protocols=protocols("p", metadata=b""))
    await a.join()
    await a.join()
    await a.sync(assignments={a.id: b"x"})
    await look(a.client, stage.group)


@scenario
async def metadata_is_no_subscription(stage: Stage) -> None:
    """A consumer whose metadata is no subscription (too short) is served all the same."""
    a = await member(stage, protocols=protocols("range", metadata=b"\x07"))
    await a.join()
    await a.join()
    await a.sync(assignments={a.id: b"x"})
    await look(a.client, stage.group)


@scenario
async def many_protocols(stage: Stage) -> None:
    """Fifty protocols, of which the first is chosen."""
    names = [f"p{number}" for number in range(50)]
    a = await (await member(stage, protocols=protocols(*names))).handshake()
    await a.join()


@scenario
async def reason_is_taken(stage: Stage) -> None:
    """A reason (version 8, KIP-800), also null or long, changes nothing."""
    a = await (await member(stage)).handshake()
    await a.join(reason="because")
    await a.join(reason=None)
    await a.join(reason="x" * 1_000)


@scenario
async def rebalance_timeout_zero(stage: Stage) -> None:
    """A sole member with a rebalance timeout of 0 still gets its generation."""
    a = await (await member(stage, rebalance_ms=0)).handshake()
    await a.join()


@scenario
async def rebalance_timeout_negative(stage: Stage) -> None:
    """A negative rebalance timeout is not checked."""
    a = await (await member(stage, rebalance_ms=-1)).handshake()
    await a.join()
