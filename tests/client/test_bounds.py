"""Nothing waits for ever: every method of a client, while no broker answers.

A proxy stands between the clients and a server. It stalls after the client has worked, or before.
A silent one still reads what the client sends, a deaf one does not. Each call ends within its time
limits, with a result or an error. Calls that wait for records or for an assignment end with the
client.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

import pytest

from kohort.client import (
    Admin,
    BrokerUnreachableError,
    ClientConfig,
    Cluster,
    ConfigResource,
    Consumer,
    ConsumerGroup,
    Generation,
    GroupMetadata,
    Producer,
    TopicPartition,
    UndeliveredError,
)
from kohort.client.admin.admin import EVERY_ACL
from kohort.client.net import Connection
from kohort.errors import KafkaError, KohortError, unless_error
from kohort.security.acls import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from kohort.server.broker import Broker
from kohort.server.config.config import Config

ORDERS: Final = TopicPartition("orders", 0)
BOUND_S: Final = 120
"""More than all limits of a call together; virtual."""


class Proxy:
    """Passes bytes on to the broker until it stalls."""

    def __init__(self) -> None:
        self.to = "", 0
        """The broker's address."""
        self.address = ""
        self._flows = asyncio.Event()
        self._flows.set()
        self.is_deaf = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1024)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def stall(self) -> None:
        """Pass on nothing more; what is not passed on is lost."""
        self._flows.clear()

    def cut(self) -> None:
        """Break all connections."""
        for task in self._tasks:
            task.cancel()

    def flow(self) -> None:
        """Pass on what is sent from now on."""
        self._flows.set()

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self.to)
        for source, to in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._pump(source, to))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                if not self._flows.is_set():
                    if self.is_deaf:
                        await self._flows.wait()
                    continue
                to.write(data)
        except OSError:
            pass
        finally:
            to.close()


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """In front of a broker that has its address for its own."""
    made = Proxy()
    await made.start()
    settings = {
        "listeners": "127.0.0.1:0",
        "advertised.listeners": made.address,
        "storage": "memory",
        "group.initial.rebalance.delay.ms": "0",
    }
    async with Broker(Config(settings)) as broker:
        host, _, port = str(broker.address).rpartition(":")
        made.to = host, int(port)
        broker.controller.topics.create("orders", 1)
        broker.controller.topics.create("other", 1)
        yield made
        await made.stop()


LIMITS: Final[dict[str, Any]] = {
    "request_timeout_ms": 2_000,
    "default_api_timeout_ms": 3_000,
    "retry_backoff_ms": 200,
    "socket_connection_setup_timeout_ms": 2_000,
}
SENDING: Final[dict[str, Any]] = {"max_block_ms": 3_000, "delivery_timeout_ms": 5_000}

Call = Callable[[Any], Awaitable[Any]]


BINDING: Final = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:a",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)
TOPIC: Final = ConfigResource("topic", "orders")
CALLS: Final[dict[str, dict[str, Call]]] = {
    "admin": {
        "close": lambda each: each.close(),
        "list_groups": lambda each: each.list_groups(),
        "describe_groups": lambda each: each.describe_groups(["g"]),
        "delete_groups": lambda each: each.delete_groups(["g"]),
        "remove_members": lambda each: each.remove_members("g", members=["a"]),
        "committed": lambda each: each.committed(["g"]),
        "commit": lambda each: each.commit("g", {ORDERS: 0}),
        "delete_offsets": lambda each: each.delete_offsets("g", [ORDERS]),
        "list_offsets": lambda each: each.list_offsets({ORDERS: -1}),
        "partition_lags": lambda each: each.partition_lags("g", [ORDERS]),
        "group_lags": lambda each: each.group_lags({}, {"g": [ORDERS]}),
        "ends": lambda each: each.ends([ORDERS]),
        "describe_topics": lambda each: each.describe_topics(["orders"]),
        "create_topic": lambda each: each.create_topic("new"),
        "create_partitions": lambda each: each.create_partitions("orders", 5),
        "delete_topic": lambda each: each.delete_topic("orders"),
        "delete_records": lambda each: each.delete_records({ORDERS: 0}),
        "describe_configs": lambda each: each.describe_configs([TOPIC]),
        "alter_configs": lambda each: each.alter_configs(TOPIC, {"retention.ms": "5000"}),
        "describe_scram_users": lambda each: each.describe_scram_users(),
        "set_scram_password": lambda each: each.set_scram_password("a", "secret"),
        "delete_scram_credential": lambda each: each.delete_scram_credential("a"),
        "describe_client_quotas": lambda each: each.describe_client_quotas(),
        "alter_client_quotas": lambda each: each.alter_client_quotas(
            {"user": "a"}, {"producer_byte_rate": 1_000.0}
        ),
        "create_acls": lambda each: each.create_acls([BINDING]),
        "describe_acls": lambda each: each.describe_acls(),
        "delete_acls": lambda each: each.delete_acls([EVERY_ACL]),
        "list_transactions": lambda each: each.list_transactions(),
        "describe_transactions": lambda each: each.describe_transactions(["a"]),
        "fence_producers": lambda each: each.fence_producers(["a"]),
        "describe_producers": lambda each: each.describe_producers([ORDERS]),
        "abort_transaction": lambda each: each.abort_transaction(
            ORDERS, producer_id=1, producer_epoch=0
        ),
        "find_hanging_transactions": lambda each: each.find_hanging_transactions([ORDERS]),
        "describe_cluster": lambda each: each.describe_cluster(),
        "describe_log_dirs": lambda each: each.describe_log_dirs(),
    },
    "consumer": {
        "close": lambda each: each.close(),
        "partitions_for": lambda each: each.partitions_for("other"),
        "assign_topics": lambda each: each.assign_topics("other"),
        "assign": lambda each: each.assign([TopicPartition("other", 0)]),
        "seek_to_beginning": lambda each: each.seek_to_beginning(ORDERS),
        "seek_to_end": lambda each: each.seek_to_end(ORDERS),
        "beginning_offsets": lambda each: each.beginning_offsets([ORDERS]),
        "end_offsets": lambda each: each.end_offsets([ORDERS]),
        "offsets_for_times": lambda each: each.offsets_for_times({ORDERS: 0}),
        "next_batch": lambda each: each.next_batch(max_wait_ms=1_000),
        "committed": lambda each: each.committed([ORDERS]),
        "commit": lambda each: each.commit({ORDERS: 0}),
    },
    "producer": {
        "close": lambda each: each.close(),
        "flush": lambda each: each.flush(),
        "partitions_for": lambda each: each.partitions_for("other"),
        "send": lambda each: each.send("other", b"value"),
        "send_and_wait": lambda each: each.send_and_wait("orders", b"value"),
        "send_encoded": lambda each: each.send_encoded(
            TopicPartition("other", 0), b"", 1, base_timestamp=0, max_timestamp=0
        ),
    },
    "group": {"close": lambda each: each.close()},
    "cluster": {
        "close": lambda each: each.close(),
        "metadata": lambda each: each.metadata(),
        "request_metadata": lambda each: each.request_metadata(("orders",)),
        "topic_names": lambda each: each.topic_names([UUID(int=1)]),
        "leader": lambda each: each.leader(TopicPartition("other", 0)),
        "request_leader": lambda each: each.request_leader(ORDERS),
        "topic": lambda each: each.topic("other"),
        "connection": lambda each: each.connection(0, "new"),
        "release": lambda each: each.release(""),
        "any_connection": lambda each: each.any_connection(),
        "coordinator": lambda each: each.coordinator("g"),
        "coordinators": lambda each: each.coordinators(["g"]),
        "coordinator_node": lambda each: each.coordinator_node("g"),
    },
}
ENDLESS: Final = {"next", "run_until_signal"}
"""They wait for an assignment."""
CLIENTS: Final[dict[str, Any]] = {
    "admin": Admin,
    "consumer": Consumer,
    "producer": Producer,
    "group": ConsumerGroup,
    "cluster": Cluster,
}


def opened(kind: str, config: ClientConfig, **options: Any) -> Any:
    match kind:
        case "consumer":
            return Consumer(config, group_id="g", **options)
        case "producer":
            return Producer(config, **SENDING, **options)
        case "group":
            return ConsumerGroup("g", topics=["orders"], cluster=config, **options)
    return CLIENTS[kind](config, **options)


async def work(kind: str, client: Any) -> None:
    """As an application, before the brokers stall."""
    match kind:
        case "consumer":
            await client.assign({ORDERS: 0})
            await client.next_batch(max_wait_ms=100)
        case "producer":
            await client.send_and_wait("orders", b"value")
            await client.send("orders", b"value")
        case "admin":
            await client.commit("g", {ORDERS: 0})
        case "cluster":
            await client.coordinator("g")


def test_all_methods_are_called() -> None:
    for kind, client in CLIENTS.items():
        methods = {
            name
            for name, _ in inspect.getmembers(client, inspect.iscoroutinefunction)
            if not name.startswith("_")
        }
        assert methods - ENDLESS == CALLS[kind].keys(), kind


@pytest.mark.parametrize("before", ["fresh", "has worked"])
@pytest.mark.parametrize("is_deaf", [False, True], ids=["silent", "deaf"])
@pytest.mark.parametrize("kind", CALLS)
async def test_each_call_ends(proxy: Proxy, kind: str, is_deaf: bool, before: str) -> None:
    config = ClientConfig(bootstrap=proxy.address, **LIMITS)
    proxy.is_deaf = is_deaf
    for name, call in CALLS[kind].items():
        proxy.flow()
        client = opened(kind, config)
        if before == "fresh":
            proxy.stall()
        with suppress(KohortError):
            await within(client.__aenter__(), f"{name}: entering")
        if before == "has worked":
            await work(kind, client)
            proxy.stall()
        with suppress(KohortError):
            await within(call(client), name)
        with suppress(KohortError, ExceptionGroup):
            await within(client.__aexit__(None, None, None), f"{name}: leaving")


CHANGES: Final = {
    "create_topic": "describe the topic",
    "create_partitions": "describe the topic",
    "delete_topic": "describe the topic",
    "delete_groups": "describe the group",
    "remove_members": "describe the group",
    "commit": "fetch the committed offsets",
    "delete_offsets": "fetch the committed offsets",
    "delete_records": "list the first offsets",
    "alter_configs": "describe the configs",
    "set_scram_password": "describe the users",
    "delete_scram_credential": "describe the users",
    "alter_client_quotas": "describe the quotas",
    "create_acls": "describe the ACLs",
    "delete_acls": "describe the ACLs",
    "fence_producers": "describe the transactions",
    "abort_transaction": "describe the producers",
}
"""What finds out whether a change without response was made."""
READS: Final = ("find_", "describe_", "list_", "metadata", "api_versions")


def test_all_methods_that_change_something_are_called() -> None:
    asking: tuple[str, ...] = ("describe_", "list_", "find_", "ends", "close")
    asking += ("committed", "partition_lags", "group_lags")
    assert {each for each in CALLS["admin"] if not each.startswith(asking)} == CHANGES.keys()


@pytest.mark.parametrize("fault", ["no response", "no response in time", "lost connection"])
@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_without_response_may_have_been_made(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, name: str, fault: str
) -> None:
    send = Connection.send

    async def unanswered(connection: Connection, api: str, /, **fields: Any) -> Any:
        if not api.startswith(READS):
            if fault == "lost connection":
                asyncio.get_running_loop().call_later(0.02, proxy.cut)
            proxy.stall()
        return await send(connection, api, **fields)

    monkeypatch.setattr(Connection, "send", unanswered)
    limits = LIMITS | {"default_api_timeout_ms": 5_000 if fault == "no response in time" else 500}
    async with Admin(ClientConfig(bootstrap=proxy.address, **limits)) as admin:
        with pytest.raises(KohortError, match=f"may have been made: {CHANGES[name]} before you"):
            await within(first_error(CALLS["admin"][name](admin)), name)


async def first_error(call: Awaitable[Any]) -> None:
    """Raise the error of the one thing that was to be changed."""
    result = await call
    if isinstance(result, dict):
        for each in result.values():
            unless_error(each)


@pytest.mark.parametrize(
    ("name", "code"),
    [("delete_groups", "GROUP_ID_NOT_FOUND"), ("remove_members", "UNKNOWN_MEMBER_ID")],
)
async def test_a_repeated_change_that_finds_nothing_may_have_been_made_before(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, name: str, code: str
) -> None:
    send = Connection.send
    lost: list[str] = []

    async def unanswered(connection: Connection, api: str, /, **fields: Any) -> Any:
        response = await send(connection, api, **fields)
        if api in ("delete_groups", "leave_group") and not lost:
            lost.append(api)
            raise BrokerUnreachableError("lost")
        return response

    monkeypatch.setattr(Connection, "send", unanswered)
    async with Admin(ClientConfig(bootstrap=proxy.address, **LIMITS)) as admin:
        await admin.commit("g", {ORDERS: 0})
        with pytest.raises(KafkaError, match=f"{code}.*may have been made: describe the group"):
            await within(first_error(CALLS["admin"][name](admin)), name)
        with pytest.raises(KafkaError, match=code) as again:  # nothing is lost here
            await within(first_error(CALLS["admin"][name](admin)), name)
        assert "may have been made" not in str(again.value)


async def within(call: Awaitable[Any], what: str) -> None:
    try:
        async with asyncio.timeout(BOUND_S) as limit:
            await call
    except TimeoutError:
        assert not limit.expired(), f"{what} has no bound"
        raise


async def test_a_producer_without_acknowledgements_ends(proxy: Proxy) -> None:
    """No response can be late; the broker just takes no more bytes."""
    config = ClientConfig(bootstrap=proxy.address, **LIMITS)
    proxy.is_deaf = True
    producer = Producer(config, acks=0, **SENDING)
    await producer.send_and_wait("orders", b"value")
    proxy.stall()
    for _ in range(40):  # more than buffers of the system have room for
        await within(producer.send("orders", bytes(500_000)), "send")
    with pytest.raises(UndeliveredError):
        await within(producer.flush(), "flush")
    await within(producer.close(), "close")


@pytest.mark.parametrize("at", ["begin", "send", "offsets", "commit"])
async def test_a_transaction_ends(proxy: Proxy, at: str) -> None:
    config = ClientConfig(bootstrap=proxy.address, **LIMITS)
    producer = Producer(config, transactional_id="t", **SENDING)
    await producer.__aenter__()

    async def transaction() -> None:
        stall("begin")
        async with producer.transaction(wait=True) as open_one:
            stall("send")
            await producer.send("orders", b"value")
            stall("offsets")
            await open_one.commit_offsets({ORDERS: 1}, GroupMetadata(group_id="g"))
            stall("commit")

    def stall(where: str) -> None:
        if where == at:
            proxy.stall()

    for _ in range(2):
        with suppress(KohortError):
            await within(transaction(), "transaction")
    with suppress(KohortError):
        await within(producer.close(), "close")


@pytest.mark.parametrize("is_deaf", [False, True], ids=["silent", "deaf"])
async def test_a_member_ends(proxy: Proxy, is_deaf: bool) -> None:
    config = ClientConfig(bootstrap=proxy.address, **LIMITS)
    proxy.is_deaf = is_deaf
    ended: list[str] = []

    async def task(generation: Generation, partition: TopicPartition) -> None:
        proxy.stall()
        for name, call in {
            "commit": lambda: generation.commit({partition: 0}),
            "anext": lambda: anext(generation.records(partition, max_wait_ms=1_000)),
        }.items():
            with suppress(KohortError):
                await within(call(), name)
            ended.append(name)
        group.stop()

    async with ConsumerGroup("g", topics=["orders"], cluster=config) as group:
        await within(group.run_until_signal(task), "the group")
    assert ended == ["commit", "anext"]
