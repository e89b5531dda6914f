"""Data that version 0.2 wrote, just before PostgreSQL was for nodes only: all of it is served.

`written_by_0_2` has a data directory of one process, one of two workers, and the rows of a cluster.
In each, a client has made topics, records, transactions, offsets, a SCRAM user, an ACL, a quota and
a broker config, deleted a topic and a record, and groups of both protocols have left.
"""

import asyncio
import tarfile
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from cli.served import Serve
from kohort.client import ClientConfig, Consumer
from kohort.client.admin import Admin, ConfigResource
from kohort.client.cluster import Cluster
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import unless_error
from kohort.types import GroupId, TopicPartition
from peers.postgres import make_tables

WRITTEN = Path(__file__).parent / "written_by_0_2"
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
SETTINGS = (
    "node.id=1",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
    "offsets.retention.minutes=2147483647",
    "transactional.id.expiration.ms=2147483647",
)


def directory_of(kind: str, *options: str) -> Callable[[Path, str], tuple[str, ...]]:
    def options_of(path: Path, _: str) -> tuple[str, ...]:
        with tarfile.open(WRITTEN / f"{kind}.tar.gz") as archive:
            archive.extractall(path / kind, filter="data")
        return "--data", kind, *options

    return options_of


def database_of_a_cluster(_: Path, url: str) -> tuple[str, ...]:
    make_tables(url)

    async def fill() -> None:
        sql = await asyncpg.connect(url)
        await sql.execute("truncate meta")
        await sql.execute((WRITTEN / "cluster.sql").read_text())
        await sql.close()

    asyncio.run(fill())
    return "--storage", url


@pytest.mark.parametrize(
    "place",
    [directory_of("files"), directory_of("workers", "--workers", "2"), database_of_a_cluster],
    ids=["files", "workers", "cluster"],
)
def test_all_that_an_earlier_version_wrote_is_served(
    serve: Serve, tmp_path: Path, database: str, place: Callable[[Path, str], tuple[str, ...]]
) -> None:
    options = (*place(tmp_path, database), "--dev", *(f"--set={each}" for each in SETTINGS))
    for _ in range(2):  # what was migrated is served, too
        server = serve(*options)
        asyncio.run(ensure_whole(ClientConfig(bootstrap=server.address)))
        server.stop()


async def ensure_whole(client: ClientConfig) -> None:
    async with Cluster(client) as cluster:
        admin = Admin(cluster)
        await ensure_groups(admin)
        topics = (await cluster.metadata()).topics
        assert "gone" not in topics
        assert len(topics["orders"].partitions) == 2
        topic, brokers = ConfigResource("topic", "orders"), ConfigResource("broker", "")
        configs = await admin.describe_configs([topic, brokers])
        assert unless_error(configs[topic])["retention.ms"].value == "-1"
        assert unless_error(configs[brokers])["log.retention.ms"].value == "123456789"
        assert list(await admin.describe_scram_users()) == ["alice"]
        (acl,) = await admin.describe_acls()
        assert (acl.resource_name, acl.principal) == ("orders", "User:alice")
        (quotas,) = (await admin.describe_client_quotas()).values()
        assert quotas == {"producer_byte_rate": 1e6}
        transactions = await admin.describe_transactions(["payments"])
        assert unless_error(transactions["payments"]).state == "CompleteAbort"
    assert await committed_values(client, FIRST, 2) == [b"2", b"3"]
    assert await committed_values(client, SECOND, 1) == [b"paid"]


async def ensure_groups(admin: Admin) -> None:
    listing = await admin.list_groups()
    assert {group.group: group.type for group in listing.groups} == {
        "billing": "Classic",
        "modern": "Consumer",
        "payments": "Classic",
        "shipping": "Classic",
    }
    committed = await admin.committed([GroupId(group.group) for group in listing.groups])
    assert committed["billing"] == {FIRST: OffsetAndMetadata(offset=2, metadata="by hand")}
    assert committed["payments"] == {FIRST: OffsetAndMetadata(offset=2)}
    for group in ("modern", "shipping"):
        offsets = unless_error(committed[GroupId(group)])
        assert {tp: each.offset for tp, each in offsets.items()} == {FIRST: 3, SECOND: 4}


async def committed_values(
    client: ClientConfig, partition: TopicPartition, count: int
) -> list[bytes | None]:
    """The values of the first `count` records of committed transactions."""
    async with Consumer(client, isolation_level="read_committed") as consumer:
        await consumer.assign([partition])
        return [(await anext(consumer)).value for _ in range(count)]
