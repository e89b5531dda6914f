"""Reading one group from `__consumer_offsets`: its records among others, and broken ones."""

import io
import sys
from collections.abc import AsyncIterator, Sequence

import pytest

from kohort.cli import reading_progress
from kohort.cli.generation_format import changes
from kohort.cli.group_log import MAX_UNREADABLE_SHOWN, TOPIC, GroupLog, read_group_log
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.coordinator.history import GroupMember, LoggedGeneration
from kohort.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
    encode,
)
from kohort.coordinator_common import partition_for
from kohort.protocol.batch_writing import build
from kohort.protocol.packing import pack_int16, pack_string
from kohort.protocol.records import Record
from kohort.server.broker import Broker
from kohort.server.config import Config
from kohort.types import GroupId, Timestamp, TopicPartition

GROUP = GroupId("billing")
PARTITIONS = 50
NOW = Timestamp(1_795_871_566_604)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with Broker(Config({"listeners": "127.0.0.1:0", "storage": "memory"})) as running:
        yield running


@pytest.fixture
async def admin(broker: Broker) -> AsyncIterator[Admin]:
    async with Cluster(ClientConfig(bootstrap=str(broker.address))) as cluster:
        yield Admin(cluster)


def generation(number: int, group: str = GROUP, *, clients: Sequence[str] = ()) -> Record:
    members = tuple(
        MemberMetadata(f"{client}-1", None, client, "/1.2.3.4", 1, 1, b"", b"")
        for client in clients
    )
    value = GroupMetadataValue("consumer", number, "range", None, NOW, members)
    key, encoded = encode(GroupMetadataRecord(GroupMetadataKey(group), value))
    return Record(key, encoded, timestamp=NOW + number)


def append(broker: Broker, *records: Record, partition: int | None = None) -> TopicPartition:
    """Append these as one batch to the group's partition, or to another one."""
    index = partition_for(GROUP, PARTITIONS) if partition is None else partition
    log = broker.topics.log(TOPIC, index)
    assert log is not None
    log.append(build(records), NOW)
    return TopicPartition(TOPIC, index)


async def read(admin: Admin, *, may_be_elsewhere: bool = False) -> GroupLog:
    return await read_group_log(
        admin, GROUP, last=3, shows=lambda _: True, may_be_elsewhere=may_be_elsewhere
    )


async def test_only_records_of_the_group_count(broker: Broker, admin: Admin) -> None:
    others = [generation(9, "billing-2"), generation(8, "bill"), Record(None, b"x", timestamp=NOW)]
    append(broker, *others, generation(1, clients=["anna"]), *others, generation(2))
    log = await read(admin)
    assert [each.generation for each in log.generations] == [1, 2]
    assert (log.count, log.unreadable, log.has_offsets) == (2, [], False)


async def test_the_last_ones_are_kept(broker: Broker, admin: Admin) -> None:
    for number in range(1, 11):
        append(broker, generation(number))
    log = await read(admin)
    assert ([each.generation for each in log.generations], log.count) == ([8, 9, 10], 10)


async def test_broken_records_are_passed_over_and_told(broker: Broker, admin: Admin) -> None:
    key = generation(1).key
    broken = [Record(key, data, timestamp=NOW) for data in (b"", b"\x00\x63", b"\x00\x03\xff")]
    cut = Record(b"\x00\x05" + pack_string(GROUP), b"", timestamp=NOW)
    append(broker, generation(1, clients=["anna"]), *broken, cut, generation(2))
    log = await read(admin)
    assert [each.generation for each in log.generations] == [1, 2]
    assert (log.unreadable_count, len(log.unreadable)) == (4, MAX_UNREADABLE_SHOWN)
    assert log.unreadable[1].startswith("offset 2: ")


@pytest.mark.parametrize(("type_", "protocol"), [(11, "share"), (17, "streams")])
async def test_groups_of_protocols_that_are_not_read(
    broker: Broker, admin: Admin, type_: int, protocol: str
) -> None:
    append(broker, Record(pack_int16(type_) + pack_string(GROUP), b"\x00\x00", timestamp=NOW))
    log = await read(admin)
    assert (log.other_protocol, log.count, log.is_found) == (protocol, 0, True)


async def test_a_group_in_another_partition_is_found_if_it_exists(
    broker: Broker, admin: Admin
) -> None:
    elsewhere = (partition_for(GROUP, PARTITIONS) + 1) % PARTITIONS
    partition = append(broker, generation(1, clients=["anna"]), partition=elsewhere)
    assert not (await read(admin)).is_found
    log = await read(admin, may_be_elsewhere=True)
    assert (log.partition, log.count) == (partition, 1)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_progress, "PROGRESS_DELAY_S", -1)
    for stderr, is_shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stderr)
        with reading_progress.reading_progress("t-0", 100, 300) as show:
            show(200)
            show(300)
        assert ("reading t-0" in stderr.getvalue()) == is_shown


def test_progress_waits_for_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_progress, "PROGRESS_DELAY_S", 3_600)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with reading_progress.reading_progress("t-0", 0, 10) as show:
        show(10)
    assert terminal.getvalue() == ""


def member(number: int, client: str = "web") -> GroupMember:
    return GroupMember(f"{client}-{number}", None, client, "/1.2.3.4")


def test_members_of_one_client_id_are_told_by_member_id() -> None:
    both = (member(1), member(2))
    of = LoggedGeneration(
        type="classic", generation=3, outcome="stable", offset=1, members=both, joining=both[1:]
    )
    assert changes(of) == "web-2 joined"


def test_many_members_and_partitions_are_counted() -> None:
    members = tuple(member(number, f"client-{number}") for number in range(9))
    gained = {each: tuple(TopicPartition("t", n) for n in range(1_000)) for each in members}
    of = LoggedGeneration(
        type="classic", generation=3, outcome="stable", offset=1, members=members,
        joining=members, gained=gained, skipped=2,
    )  # fmt: skip
    assert changes(of) == (
        "client-0, client-1, client-2, client-3, client-4 and 4 more joined; "
        "9 members got 9,000 partitions; generations 1 to 2 were never synced"
    )
