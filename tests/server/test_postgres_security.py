"""A PostgreSQL that asks for TLS and for certificates, and roles with few privileges."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import asyncpg
import pytest

from kohort.client import ClientConfig, Producer
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.errors import KohortError
from kohort.server.broker import Broker
from kohort.server.config import Config
from peers.postgres import Postgres, PostgresUnavailableError
from server.certificates import Authority
from server.postgres_nodes_bench import PARTITIONS, Nodes

RULES = "hostssl all secured 127.0.0.1/32 cert\nhost all kohort 127.0.0.1/32 trust\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[Postgres]:
    """A PostgreSQL whose role "secured" needs a certificate of that name."""
    try:
        cluster = Postgres.start()
    except PostgresUnavailableError as error:
        pytest.skip(str(error))
    with cluster:
        keys = cluster.directory / "server.pem"
        for source, target in ((authority.issue("db.pem"), keys), (authority.file, "ca.pem")):
            copied = shutil.copy(source, cluster.directory / target)
            if cluster.user is not None:
                shutil.chown(copied, cluster.user)
        (cluster.directory / "data" / "pg_hba.conf").write_text(RULES)
        cluster.settings |= {
            "ssl": "on",
            "ssl_cert_file": str(keys),
            "ssl_key_file": str(keys),
            "ssl_ca_file": str(cluster.directory / "ca.pem"),
        }
        cluster.execute("create role secured login")
        cluster.restart()
        yield cluster


@pytest.fixture
def place(secured: Postgres) -> dict[str, str]:
    """The parameters of a URL that lead to a schema of the role."""
    schema = secured.new_schema().rpartition("=")[2]
    secured.execute(f"grant usage, create on schema {schema} to secured")
    return {"search_path": schema}


def url(postgres: Postgres, **parameters: object) -> str:
    return f"postgresql://secured@127.0.0.1:{postgres.port}/postgres?{urlencode(parameters)}"


def trusted(authority: Authority, client: str = "secured") -> dict[str, Path]:
    key = authority.issue("client.pem", common_name=client)
    return {"sslrootcert": authority.file, "sslcert": key, "sslkey": key}


async def test_all_connections_are_encrypted_and_verified(
    secured: Postgres, place: dict[str, str], authority: Authority
) -> None:
    storage = url(secured, sslmode="verify-full", **place, **trusted(authority))
    own = {"listeners": "127.0.0.1:0", "storage": storage, "node.id": "1"}
    async with (
        Broker(Config(own)) as broker,
        Cluster(ClientConfig(bootstrap=str(broker.address))) as cluster,
    ):
        await Admin(cluster).create_topic("orders", partitions=1)
        connection = await asyncpg.connect(secured.url)
        encrypted = await connection.fetch(
            "select distinct ssl, client_dn from pg_stat_ssl join pg_stat_activity using (pid) "
            "where usename = 'secured'"
        )
        await connection.close()
    assert [(ssl, "CN=secured" in name) for ssl, name in encrypted] == [(True, True)]


async def test_a_database_of_another_authority_is_refused_with_the_reason(
    secured: Postgres, place: dict[str, str], authority: Authority, tmp_path: Path
) -> None:
    other = {**trusted(authority), "sslrootcert": Authority(tmp_path).file}
    storage = url(secured, sslmode="verify-full", **place, **other)
    own = {"listeners": "127.0.0.1:0", "storage": storage}
    with pytest.raises(KohortError, match="certificate verify failed") as refused:
        await Broker(Config(own)).start()
    assert "sslrootcert" not in str(refused.value)


async def test_nodes_serve_by_the_documented_privileges(as_application: str) -> None:
    async with Nodes(as_application) as nodes:
        await nodes.start(1, 2)
        await nodes.create()
        await nodes.led_by(1, 2)
        async with (
            Producer(nodes.client, transactional_id="billing") as producer,
            producer.transaction(),
        ):
            for partition in range(PARTITIONS):
                await producer.send("orders", b"paid", partition=partition)
        async with Cluster(nodes.client) as cluster:
            await Admin(cluster).delete_topic("orders")
        await nodes.stop(1)
        await nodes.create()
        await nodes.led_by(2)
