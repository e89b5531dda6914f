"""What was decided for a client is kept with its connection, and never for longer than it is so."""

import asyncio
from types import SimpleNamespace
from uuid import UUID

import pytest

from kohort.errors import ErrorCode
from kohort.protocol.apis import BY_NAME
from kohort.security import ANONYMOUS, KafkaPrincipal
from kohort.security.acls import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    Acls,
    PatternType,
    ResourceType,
)
from kohort.security.authorizer import MAX_DECISIONS, Authorizer
from kohort.server.authorization import MAX_PEERS, Authorization
from kohort.server.broker import Broker
from kohort.server.config import Config
from server.identities import peer
from server.net.bench import Peer

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ALICE = KafkaPrincipal("User", "alice")
HEARTBEAT = BY_NAME["heartbeat"].key


def may_read(principal: KafkaPrincipal, group: str) -> AclBinding:
    return AclBinding(
        ResourceType.GROUP,
        group,
        PatternType.LITERAL,
        str(principal),
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )


def question(principal: KafkaPrincipal = ALICE) -> SimpleNamespace:
    return SimpleNamespace(api_key=HEARTBEAT, peer=peer(principal))


def test_access_follows_the_acls_and_the_principal() -> None:
    acls = Acls()
    authorization = Authorization(Authorizer(acls))
    alice, bob = question(), question(KafkaPrincipal("User", "bob"))
    assert not authorization.access(alice).group("billing")
    acls.add(UUID(int=1), may_read(ALICE, "billing"))
    assert authorization.access(alice).group("billing")
    assert not authorization.access(bob).group("billing")
    acls.remove(UUID(int=1))
    assert not authorization.access(alice).group("billing")


def test_decisions_for_many_connections_are_dropped_and_made_again() -> None:
    acls = Acls()
    acls.add(UUID(int=1), may_read(ALICE, "billing"))
    authorization = Authorization(Authorizer(acls))
    questions = [question() for _ in range(MAX_PEERS + 1)]
    assert all(authorization.access(each).group("billing") for each in questions)
    assert authorization.access(questions[0]).group("billing")


def test_decisions_are_dropped_when_they_are_too_many() -> None:
    authorization = Authorization(Authorizer(Acls()))
    alice = question()
    before = authorization.access(alice)
    for number in range(MAX_DECISIONS + 1):
        before.group(str(number))
    assert authorization.access(alice) is not before


async def test_a_heartbeat_that_comes_again_is_refused_once_its_acl_is_gone() -> None:
    config = {
        "listeners": "127.0.0.1:0",
        "storage": "memory",
        "authorizer.class.name": STANDARD,
    }
    async with Broker(Config(config)) as broker:
        broker.controller.writer.commit(
            *broker.controller.acls.create_acls([may_read(ANONYMOUS, "billing")])
        )
        client = Peer(*await asyncio.open_connection(*broker.address))
        beat = {"group_id": "billing", "generation_id": 1, "member_id": "m"}
        for _ in range(3):
            told = await client.ask("heartbeat", 4, **beat)
            assert told.error_code is ErrorCode.unknown_member_id
        (acl,) = broker.controller.image.acls.snapshot()
        broker.controller.writer.commit(*broker.controller.acls.delete_acls([acl]))
        told = await client.ask("heartbeat", 4, **beat)
        assert told.error_code is ErrorCode.group_authorization_failed
        client.writer.close()


@pytest.mark.parametrize("revoked", [ResourceType.GROUP, ResourceType.TOPIC])
async def test_a_commit_that_comes_again_is_refused_once_its_acl_is_gone(
    revoked: ResourceType,
) -> None:
    config = {
        "listeners": "127.0.0.1:0",
        "storage": "memory",
        "authorizer.class.name": STANDARD,
    }
    async with Broker(Config(config)) as broker:
        broker.controller.topics.create("orders", 1)
        group = may_read(ANONYMOUS, "billing")
        topic = group._replace(resource_type=ResourceType.TOPIC, resource_name="orders")
        broker.controller.writer.commit(*broker.controller.acls.create_acls([group, topic]))
        await broker.groups.loaded()
        client = Peer(*await asyncio.open_connection(*broker.address))

        async def commit(offset: int) -> ErrorCode:
            partition = {"partition_index": 0, "committed_offset": offset}
            topics = [{"name": "orders", "partitions": [partition]}]
            told = await client.ask("offset_commit", 8, group_id="billing", topics=topics)
            return ErrorCode(told.topics[0].partitions[0].error_code)

        assert [await commit(offset) for offset in range(3)] == [0, 0, 0]
        (acl,) = (
            acl_id
            for acl_id, each in broker.controller.image.acls.snapshot().items()
            if each.resource_type is revoked
        )
        broker.controller.writer.commit(*broker.controller.acls.delete_acls([acl]))
        refused = {
            ResourceType.GROUP: ErrorCode.group_authorization_failed,
            ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
        }
        assert await commit(3) is refused[revoked]
        broker.controller.writer.commit(*broker.controller.acls.create_acls([group, topic]))
        assert await commit(4) is ErrorCode.none
        client.writer.close()
