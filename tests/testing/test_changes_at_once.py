"""Nodes that change the same things at the same moment, by a storage that is slow and unreliable.

What is logged is checked record by record: a name has one topic, what was deleted stays deleted, a
topic does not shrink, and no change takes another one back. What clients were told is in the log as
often as they were told it.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import pytest

from effort import seeds
from kohort.cluster import Logged, UnknownOutcomeError
from kohort.errors import ErrorCode, KafkaError
from kohort.log.memory_cluster import MemoryCluster, MemoryStorage
from kohort.quotas import quota_entity
from kohort.security.acls import AclBinding, AclOperation, AclPermissionType, PatternType
from kohort.security.acls import ResourceType as AclResource
from kohort.security.scram import ScramCredential, ScramMechanism
from kohort.server.config import ResourceType
from kohort.server.controller import NewPartitions, NewTopic
from kohort.server.metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    MetadataImage,
    MetadataRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    ScramSecretRecord,
    TopicRecord,
    decode_batches,
)
from kohort.server.replicas import Topic
from kohort.testing.nodes import Node, Nodes

COORDINATORS = {"offsets_topic_num_partitions": 2, "transaction_state_log_num_partitions": 2}
NAMES = ("orders", "or.ders", "or_ders", "payments")
CONFIGS = {"retention.ms": "60000", "segment.ms": "30000", "max.message.bytes": "2000"}
REFUSALS = {
    ErrorCode.topic_already_exists,
    ErrorCode.invalid_topic_exception,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.invalid_partitions,
}
"""Why a change may not hold: of another one that came before."""


class UnreliableStorage(MemoryStorage):
    """Other tasks run in between; answers get lost, of appends that were made, are made later."""

    def __init__(self, random: Random, shared: MemoryCluster, node_id: int) -> None:
        super().__init__(shared, node_id)
        self.loses_answers = False
        self._random = random
        self._later: set[asyncio.Task[bool]] = set()

    async def _turns(self) -> None:
        for _ in range(self._random.choice((0, 0, 1, 3, 10))):
            await asyncio.sleep(0)

    async def read(self, offset: int) -> Logged:
        await self._turns()
        read = await super().read(offset)
        await self._turns()
        return read

    async def append(self, end_offset: int, batch: bytes, fences: Mapping[int, int]) -> bool:
        await self._turns()
        match self._random.random() if self.loses_answers else 1:
            case x if x < 0.05:
                raise UnknownOutcomeError
            case x if x < 0.1:
                await super().append(end_offset, batch, fences)
                raise UnknownOutcomeError
            case x if x < 0.15:
                late = asyncio.create_task(self._append_late(end_offset, batch, fences))
                self._later.add(late)
                late.add_done_callback(self._later.discard)
                raise UnknownOutcomeError
        appended = await super().append(end_offset, batch, fences)
        await self._turns()
        return appended

    async def _append_late(self, *what: Any) -> bool:
        for _ in range(self._random.randrange(30)):
            await asyncio.sleep(0)
        return await super().append(*what)


class Changes:
    """Random changes through all nodes at once, and how often each kind was told to be done."""

    def __init__(self, seed: int, nodes: int) -> None:
        self.random = random = Random(seed)
        self.cluster = Nodes(storage=partial(UnreliableStorage, random), **COORDINATORS)
        self.count = nodes
        self.told: Counter[tuple[str, str]] = Counter()
        self.ids: list[range] = []
        self.number = 0

    async def run(self, rounds: int) -> None:
        for node_id in range(1, self.count + 1):
            await self.cluster.start(node_id)
        await self.cluster.advance(1_000)
        for node in self.cluster.nodes.values():
            assert isinstance(node.storage, UnreliableStorage)
            node.storage.loses_answers = True
        ticking = asyncio.create_task(self.tick())
        for _ in range(rounds):
            changes = [self.change() for _ in range(self.random.randint(2, 8))]
            await asyncio.gather(*changes)
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking
        await self.cluster.advance(5_000)

    async def tick(self) -> None:
        while True:
            await self.cluster.advance(10, step_ms=10)
            await asyncio.sleep(0)

    async def change(self) -> None:
        node = self.random.choice(list(self.cluster.nodes.values()))
        changes: tuple[Callable[[Node, str], Awaitable[None]], ...] = (
            self.create, self.create, self.delete, self.grow, self.alter,
            self.set_quota, self.set_group_config, self.change_acl, self.set_user, self.take_ids,
        )  # fmt: skip
        try:
            await self.random.choice(changes)(node, self.random.choice(NAMES))
        except KafkaError as error:
            if error.code not in REFUSALS:
                raise

    async def create(self, node: Node, name: str) -> None:
        (made,) = await node.controller.topics.create_topics(
            [NewTopic(name, self.random.randint(1, 3))]
        )
        if isinstance(made, KafkaError):
            raise made
        self.told["created", name] += 1

    async def delete(self, node: Node, name: str) -> None:
        refused = await node.controller.writer.change(node.controller.topics.delete_topics([name]))
        if name in refused:
            raise refused[name]
        self.told["deleted", name] += 1

    async def grow(self, node: Node, name: str) -> None:
        (grown,) = await node.controller.topics.create_partitions(
            [NewPartitions(name, self.random.randint(2, 9))]
        )
        if isinstance(grown, KafkaError):
            raise grown
        self.told["grown", name] += 1

    async def alter(self, node: Node, name: str) -> None:
        key = self.random.choice([*CONFIGS])

        def altered(topic: Topic) -> Mapping[str, str]:
            configs = dict(topic.configs)
            if configs.pop(key, None) is None:
                configs[key] = CONFIGS[key]
            return configs

        await node.controller.topics.alter(name, altered)
        self.told["altered", name] += 1

    async def set_quota(self, node: Node, name: str) -> None:
        entity, key = quota_entity([("user", name)]), self.next("quota")

        def change() -> None:
            current = node.controller.image.quotas.entities.get(entity, {})
            node.controller.writer.commit(
                *node.controller.client_quotas.alter_quotas({entity: {**current, key: 1.0}})
            )

        await node.controller.writer.until_durable(change)
        self.told["quota", key] += 1

    async def set_group_config(self, node: Node, name: str) -> None:
        key = self.next("config")

        def change() -> None:
            current = node.controller.configuration.configs_of(ResourceType.GROUP, name)
            node.controller.writer.commit(
                *node.controller.configuration.set_configs(
                    ResourceType.GROUP, name, {**current, key: "1"}
                )
            )

        await node.controller.writer.until_durable(change)
        self.told["config", key] += 1

    async def change_acl(self, node: Node, name: str) -> None:
        binding = AclBinding(
            AclResource.TOPIC, name, PatternType.LITERAL, f"User:{self.random.randint(1, 3)}", "*",
            AclOperation.READ, AclPermissionType.ALLOW,
        )  # fmt: skip
        acls, control = node.controller.image.acls, node.controller.acls
        if self.random.random() < 0.5:
            await node.controller.writer.write(partial(control.create_acls, [binding]))
        elif (acl_id := acls.id_of(binding)) is not None:
            await node.controller.writer.write(partial(control.delete_acls, [acl_id]))

    async def set_user(self, node: Node, name: str) -> None:
        mechanism = ScramMechanism.SHA_256
        credential = ScramCredential(
            salt=b"salt", stored_key=b"stored", server_key=b"server", iterations=4096
        )
        scram = node.controller.scram
        await node.controller.writer.write(
            partial(scram.alter_credentials, {(name, mechanism): credential})
        )

    async def take_ids(self, node: Node, _: str) -> None:
        self.ids.append(await node.controller.allocate_producer_ids())

    def next(self, what: str) -> str:
        self.number += 1
        return f"{what}-{self.number}"

    def logged(self) -> list[MetadataRecord]:
        return [
            record for batch in self.cluster.shared.metadata for _, record in decode_batches(batch)
        ]


class Model:
    """What may be logged, record by record."""

    def __init__(self) -> None:
        self.state = MetadataImage()
        self.deleted: set[Any] = set()
        self.logged: Counter[tuple[str, str]] = Counter()
        self.of_name: dict[str, Any] = {}
        self.values: dict[Any, dict[str, Any]] = defaultdict(dict)
        self.bindings: dict[Any, AclBinding] = {}

    def replay(self, record: MetadataRecord) -> None:
        match record:
            case TopicRecord():
                self._topic(record)
            case RemoveTopicRecord(id=topic_id):
                name = self.state.topics[topic_id].name
                self.logged["deleted", name] += 1
                self.deleted.add(topic_id)
                del self.of_name[name.replace(".", "_")]
            case ClientQuotaRecord(entity=entity, quotas=quotas):
                self._one_more("quota", entity, quotas)
            case ConfigRecord(kind=kind, name=name, configs=configs):
                self._one_more("config", (kind, name), configs)
            case AccessControlEntryRecord(id=acl_id, binding=binding):
                assert binding not in self.bindings.values(), "an entry that is there already"
                self.bindings[acl_id] = binding
            case RemoveAccessControlEntryRecord(id=acl_id):
                del self.bindings[acl_id]
            case ProducerIdsRecord(end=end):
                assert end > self.state.producer_ids_end
            case ScramSecretRecord():
                assert not self.state.scram_users.secret, "another secret of users"
        self.state.replay(record)

    def _topic(self, record: TopicRecord) -> None:
        assert record.id not in self.deleted, "a topic that was deleted"
        before = self.state.topics.get(record.id)
        if before is None:
            key = record.name.replace(".", "_")
            assert key not in self.of_name, f"two topics of the name {record.name}"
            self.of_name[key] = record.id
            self.logged["created", record.name] += 1
        elif record.partitions != before.partitions:
            assert record.partitions > before.partitions, "a topic that shrinks"
            assert record.configs == before.configs
            self.logged["grown", record.name] += 1
        else:
            changed = {*record.configs.items()} ^ {*before.configs.items()}
            assert len(changed) == 1, "another alteration is taken back"
            self.logged["altered", record.name] += 1

    def _one_more(self, kind: str, of: Any, values: Mapping[str, Any]) -> None:
        (new,) = values.keys() - self.values[of].keys()
        assert len(values) == len(self.values[of]) + 1, "another change is taken back"
        self.values[of] = dict(values)
        self.logged[kind, new] += 1


@pytest.mark.parametrize("nodes", [2, 3])
@pytest.mark.parametrize("seed", seeds(4))
async def test_each_change_is_decided_on_what_is_logged_before(seed: int, nodes: int) -> None:
    changes, model = Changes(seed, nodes), Model()
    await changes.run(25)
    for record in changes.logged():
        model.replay(record)
    topics = ("created", "deleted", "grown", "altered")
    internal = ("__consumer_offsets", "__transaction_state")
    logged = +Counter({key: n for key, n in model.logged.items() if key[1] not in internal})
    assert {k: n for k, n in logged.items() if k[0] in topics} == {
        k: n for k, n in changes.told.items() if k[0] in topics
    }
    assert changes.told.keys() <= logged.keys(), "what was told to be done is logged"
    given = [each for ids in changes.ids for each in ids]
    assert len(given) == len(set(given)), "producer ids that were given twice"
    for node in changes.cluster.nodes.values():
        assert node.metadata.state.topics == model.state.topics
        assert {topic.name: topic.record() for topic in node.topics.all()} == {
            record.name: record for record in model.state.topics.values()
        }
        assert node.controller.image.quotas.entities == model.state.quotas.entities
    await all_partitions_are_led(changes.cluster)


async def all_partitions_are_led(cluster: Nodes) -> None:
    """By one node each."""
    await cluster.advance(5_000)
    led = [
        partition
        for node in cluster.nodes.values()
        for partition in node.controller.replicas.led_epochs
    ]
    (node, *_) = cluster.nodes.values()
    there = [log.topic_partition for topic in node.topics.all() for log in topic.partitions]
    assert sorted(led) == sorted(there)


async def test_a_creation_does_not_wait_for_a_leader_of_a_topic_that_was_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kohort.server.controller.shared_topic_changes.LEADER_TIMEOUT_S", 3_600.0)
    cluster = Nodes(**COORDINATORS)
    one, two = await cluster.start(1), await cluster.start(2)
    for deleting in (one, two):
        making = asyncio.create_task(one.controller.topics.create_topics([NewTopic("orders", 3)]))
        while two.topics.get("orders") is None:
            await two.controller.writer.catch_up()
        await deleting.controller.writer.change(
            deleting.controller.topics.delete_topics(["orders"])
        )
        await one.controller.writer.catch_up()
        await two.controller.writer.catch_up()
        async with asyncio.timeout(60):
            await making
