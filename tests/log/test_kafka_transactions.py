"""The log of transactions that Apache Kafka wrote: the same markers, the same `.txnindex`."""

import shutil

import pytest

from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.protocol import batches
from kohort.protocol.aborted_transactions import committed_batches
from kohort.protocol.batch_format import START
from peers import kafka

from .conftest import NOW, ORDERS

pytestmark = [pytest.mark.interop, pytest.mark.clients]

SEGMENT_BYTES = 1 << 20
CONFIG = LogConfig(segment_bytes=SEGMENT_BYTES, retention_ms=-1)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The directory of a partition of Kafka's: overlapping transactions in several segments."""
    confluent = pytest.importorskip("confluent_kafka")
    admin = pytest.importorskip("confluent_kafka.admin")
    try:
        node = kafka.Kafka.start(
            kafka.free_port(neighbours=1), heap="512m", flags=kafka.QUICK_START
        )
    except kafka.KafkaUnavailableError as error:
        pytest.skip(str(error))
    with node:
        servers = {"bootstrap.servers": node.address}
        topic = admin.NewTopic("orders", 1, 1, config={"segment.bytes": str(SEGMENT_BYTES)})
        client = admin.AdminClient(servers)
        client.create_topics([topic])["orders"].result()
        producers = [
            confluent.Producer(servers | {"transactional.id": f"t{number}", "linger.ms": 0})
            for number in range(3)
        ]
        for producer in producers:
            producer.init_transactions()
        plain = confluent.Producer(servers | {"enable.idempotence": False})
        begun = set()
        for step in range(40):
            number = step % 3
            producer = producers[number]
            if number not in begun:
                producer.begin_transaction()
                begun.add(number)
            producer.produce("orders", b"%d" % step + bytes(100_000))
            producer.flush()
            plain.produce("orders", b"plain")
            plain.flush()
            if step % 4 == 3 or step % 7 == 0:
                begun.discard(number)
                (producer.abort_transaction if step % 2 else producer.commit_transaction)()
        producers[next(iter(begun))].abort_transaction()
        # markers are written after the response: only a node that has stopped wrote both the log
        # and the index of the last ones
        node.process.terminate()
        node.process.wait(60)
        copy = tmp_path_factory.mktemp("kafka") / "orders-0"
        shutil.copytree(node.directory / "log" / "orders-0", copy)
    assert len(list(copy.glob("*.log"))) > 2
    return copy


def stored(path, suffix):
    """The content of the files with that suffix, as one."""
    return b"".join(each.read_bytes() for each in sorted(path.glob(f"*{suffix}")))


def test_markers_are_byte_for_byte_those_of_kafka(written):
    content = stored(written, ".log")
    kinds = set()
    for position, header in batches.iterate(content):
        if not header.is_control:
            continue
        found = content[position : position + header.size]
        marker = batches.read_marker(found)
        kinds.add(marker.commit)
        made = batches.control_batch(
            header.producer_id,
            header.producer_epoch,
            commit=marker.commit,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=header.max_timestamp,
        )
        assert START.pack(*header[:3]) + made[START.size :] == found
    assert kinds == {True, False}


def test_recovery_makes_the_same_index(written, data):
    directory = LocalDirectory(data)
    directory.close()
    (data / ".clean-shutdown").unlink()
    (data / ".lock").write_text("1\nan earlier start of the machine")
    (data / "orders-0").mkdir()
    for each in written.glob("*.log"):
        shutil.copy(each, data / "orders-0")
    directory = LocalDirectory(data)
    log = directory.open(ORDERS, CONFIG)
    assert log.last_stable_offset <= log.end_offset
    directory.close()
    made = {path.name: path.read_bytes() for path in (data / "orders-0").glob("*.txnindex")}
    theirs = {path.name: path.read_bytes() for path in written.glob("*.txnindex")}
    assert made == {name: content for name, content in theirs.items() if content}
    assert made


def test_the_same_appends_make_the_same_files(written, data):
    directory = LocalDirectory(data)
    log = directory.open(ORDERS, CONFIG)
    content = stored(written, ".log")
    for position, header in batches.iterate(content):
        batch = content[position : position + header.size]
        producer = header.producer_id, header.producer_epoch
        if header.is_control:
            marker = batches.read_marker(batch)
            log.append_marker(
                *producer,
                commit=marker.commit,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=1,
                timestamp=header.max_timestamp,
            )
        elif header.is_transactional:
            guard = log.begin_verification(*producer, header.base_sequence, NOW, tv2=False)
            log.append(batch, NOW, verified=guard)
        else:
            log.append(batch, NOW)
    stable = log.last_stable_offset
    aborted = [each for segment in log.segments for each in segment.aborted.entries()]
    directory.close()
    assert stored(data / "orders-0", ".log") == content
    assert stored(data / "orders-0", ".txnindex") == stored(written, ".txnindex")
    listed = [(transaction.producer_id, transaction.first_offset) for transaction in aborted]
    steps = [
        int(next(batches.decode_records(content, position)).value.rstrip(b"\0"))
        for position, header in committed_batches(content, listed)
        if header.is_transactional and header.base_offset < stable
    ]
    assert steps == sorted(steps)
    assert not any(step % 2 and (step % 4 == 3 or step % 7 == 0) for step in steps)
