"""ApiVersions v5: the cluster and the node that a client expects (KIP-1242)."""

from __future__ import annotations

from typing import Any, Final

from kohort_conformance.logins import Login
from kohort_conformance.scenario import SECURED, scenario
from kohort_conformance.stage import Client, Stage

SOFTWARE: Final = {"client_software_name": "kohort", "client_software_version": "1.0"}
NO_NODE: Final = -1
OTHER_NODE: Final = 1_000_003
OTHER_CLUSTER: Final = "another-cluster-of-nobody"


async def identity(stage: Stage) -> tuple[str, int]:
    """The cluster id and the id of the one node."""
    told = await (await stage.client("asker")).quiet("Metadata", 9, topics=[])
    return told["cluster_id"], told["brokers"][0]["node_id"]


async def say(client: Client, label: str, **values: Any) -> None:
    """ApiVersions v5: record the error, and which of the other fields have a value."""
    told = await client.quiet("ApiVersions", 5, **{**SOFTWARE, **values})
    keys = [one["api_key"] for one in told["api_keys"]]
    rest = {
        "apis": "all" if len(keys) > 20 else keys,
        "has_features": [bool(told[f"{one}_features"]) for one in ("supported", "finalized")],
        "has_epoch": told["finalized_features_epoch"] >= 0,
        "zk_migration_ready": told["zk_migration_ready"],
    }
    client.stage.note(label, {"error_code": told["error_code"], **rest})


async def works(client: Client) -> None:
    """Record whether the connection still serves another API."""
    await client.ask(
        "Heartbeat", 4, group_id=client.stage.group, generation_id=1, member_id="nobody"
    )


def pairs(cluster: str, node: int) -> dict[str, tuple[str | None, int]]:
    """Pairs of cluster id and node id that a client can send, by a label."""
    return {
        "neither": (None, NO_NODE),
        "both": (cluster, node),
        "another cluster": (OTHER_CLUSTER, node),
        "another node": (cluster, OTHER_NODE),
        "both others": (OTHER_CLUSTER, OTHER_NODE),
        "the cluster alone": (cluster, NO_NODE),
        "another cluster alone": (OTHER_CLUSTER, NO_NODE),
        "the node alone": (None, node),
        "another node alone": (None, OTHER_NODE),
        "an empty cluster": ("", node),
        "an empty cluster alone": ("", NO_NODE),
        "a node below all": (cluster, -2),
        "a node below all, alone": (None, -2),
        "the cluster in capitals": (cluster.swapcase(), node),
    }


@scenario
async def every_pair(stage: Stage) -> None:
    """A pair of another server gets 129, half a pair gets 42."""
    for label, (cluster_id, node_id) in pairs(*await identity(stage)).items():
        a = await stage.client(label)
        await say(a, label, cluster_id=cluster_id, node_id=node_id)
        await works(a)


@scenario
async def again_after_an_error(stage: Stage) -> None:
    """After 129 and 42 the right pair is accepted on the same connection, and others are not."""
    cluster, node = await identity(stage)
    a = await stage.client()
    for cluster_id, node_id in (
        (OTHER_CLUSTER, node),
        (cluster, node),
        (cluster, OTHER_NODE),
        (cluster, NO_NODE),
        (None, NO_NODE),
    ):
        await say(a, "said", cluster_id=cluster_id, node_id=node_id)
    await works(a)


@scenario
async def odd_names_beside_another_server(stage: Stage) -> None:
    """The order of the errors of an invalid software name and of another server."""
    cluster, node = await identity(stage)
    a = await stage.client()
    for name in ("", "a b"):
        for cluster_id, node_id in ((OTHER_CLUSTER, node), (cluster, NO_NODE), (cluster, node)):
            values = {"client_software_name": name, "cluster_id": cluster_id, "node_id": node_id}
            await say(a, f"{name!r}", **values)


@scenario(profile=SECURED)
async def before_the_login(stage: Stage) -> None:
    """Before a login half a pair is refused, and any pair accepted; after it the pair is judged."""
    for label, (cluster_id, node_id) in pairs(*await identity(stage)).items():
        a = await stage.stranger(label)
        await say(a, label, cluster_id=cluster_id, node_id=node_id)
        await Login(a).log_in("user0")
        await say(a, f"{label}, later", cluster_id=cluster_id, node_id=node_id)


@scenario(profile=SECURED)
async def again_before_the_login(stage: Stage) -> None:
    """After half a pair a client may ask again, and then log in."""
    cluster, node = await identity(stage)
    a = await stage.stranger()
    for cluster_id, node_id in ((cluster, NO_NODE), (None, node), (OTHER_CLUSTER, OTHER_NODE)):
        await say(a, "said", cluster_id=cluster_id, node_id=node_id)
    await Login(a).log_in("user0")
    await works(a)
