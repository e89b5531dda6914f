"""The APIs of transactions, with the coordinator on a log in memory."""

import asyncio
from types import SimpleNamespace

import pytest

from kohort.errors import ErrorCode
from kohort.protocol.batches import TRANSACTIONAL
from kohort.runtime.transactions import TransactionCoordinator
from kohort.server.cluster.internode.transactions import RoutedVerifier
from kohort.server.cluster.transaction_markers import PartitionMarkers
from kohort.transactions.config import TransactionCoordinatorConfig
from kohort.transactions.requests import TransactionalProducer
from kohort.types import TopicPartition
from server.handlers.bench import batch_of
from turns import BOUND_MS, longest_turn_ms
from waiting import turns

GROUP_PARTITION = TopicPartition("__consumer_offsets", 3)
OK = ErrorCode.none
TRANSLATED = (ErrorCode.invalid_txn_state, ErrorCode.not_enough_replicas)
"""What Produce makes of errors of the coordinator that its clients do not know."""


class FakeGroups:
    """The group log, as far as transactions end there."""

    def __init__(self):
        self.ended = []
        self.gate = asyncio.Event()
        self.gate.set()

    def partition_of(self, group):
        assert group
        return GROUP_PARTITION

    async def complete_transaction(self, partition, producer_id, producer_epoch, **marker):
        self.ended.append((partition, producer_id, producer_epoch, marker["commit"]))


class GatedMarkers(PartitionMarkers):
    """Markers that wait for the gate of the groups."""

    def __init__(self, bench):
        super().__init__(bench.topics, bench.groups, bench.clock, waits_for_disk=False)
        self.gate = bench.groups.gate

    async def write(self, partition, marker):
        await self.gate.wait()
        await super().write(partition, marker)


@pytest.fixture
async def tx(bench, topic):
    """The bench with a coordinator, and short forms of the requests."""
    bench.groups = FakeGroups()
    state = bench.controller.topics.create(
        "__transaction_state", 2, {"cleanup.policy": "compact"}, internal=True
    )
    bench.transactions = TransactionCoordinator(
        state.partitions,
        TransactionCoordinatorConfig(),
        bench.clock,
        new_producer_id=bench.controller.producer_ids.next,
        marker_writer=GatedMarkers(bench),
    )
    bench.transactions.start()
    await bench.transactions.loaded()
    yield SimpleNamespace(
        bench=bench,
        topic=topic,
        ask=bench.ask,
        init=lambda version=5, **fields: init(bench, version, **fields),
        produce=lambda producer, version=12, **options: produce(
            bench, topic, producer, version, **options
        ),
        add=lambda producer, version=3, **options: add(bench, topic, producer, version, **options),
        end=lambda producer, version=5, **options: end(bench, producer, version, **options),
    )
    await bench.transactions.close()


async def init(bench, version, name="tx", timeout_ms=60_000, **fields):
    response = await bench.ask(
        "init_producer_id",
        version,
        transactional_id=name,
        transaction_timeout_ms=timeout_ms,
        **fields,
    )
    return response.error_code or (response.producer_id, response.producer_epoch)


async def produce(bench, topic, producer, version, sequence=0, partitions=(0,), name="tx"):
    """The error of each partition.

    None has an offset where the coordinator refuses, and a message only if its error is another.
    """
    batch = batch_of(
        b"x",
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        attributes=TRANSACTIONAL,
    )
    response = await bench.ask(
        "produce",
        version,
        transactional_id=name,
        acks=-1,
        timeout_ms=1_000,
        topic_data=[
            {
                "name": topic,
                "partition_data": [{"index": index, "records": batch} for index in partitions],
            }
        ],
    )
    results = response.responses[0].partition_responses
    assert all(result.log_start_offset == (-1 if result.error_code else 0) for result in results)
    assert all(
        (result.error_message is None) == (result.error_code not in TRANSLATED)
        for result in results
    )
    return [result.error_code for result in results]


async def add(bench, topic, producer, version, partitions=(0,), name="tx", topics=None):
    """(topic, partition) → error"""
    response = await bench.ask(
        "add_partitions_to_txn",
        version,
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=topics or [{"name": topic, "partitions": partitions}],
    )
    return {
        (each.name, result.partition_index): result.partition_error_code
        for each in response.results_by_topic_v3_and_below
        for result in each.results_by_partition
    }


async def end(bench, producer, version, commit=True, name="tx"):
    response = await bench.ask(
        "end_txn",
        version,
        transactional_id=name,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=commit,
    )
    if response.error_code or version < 5:
        return response.error_code
    return response.producer_id, response.producer_epoch


# --- InitProducerId ---


@pytest.mark.parametrize("version", range(6))
async def test_a_transactional_id_keeps_its_producer_id(tx, version):
    producer_id, epoch = await tx.init(version)
    assert epoch == 0
    assert await tx.init(version) == (producer_id, 1)


@pytest.mark.parametrize(
    ("version", "error"),
    [(3, ErrorCode.invalid_producer_epoch), (4, ErrorCode.producer_fenced)],
)
async def test_an_old_producer_is_fenced_in_the_words_of_its_version(tx, version, error):
    producer_id, _ = await tx.init()
    await tx.init()
    assert await tx.init(version, producer_id=producer_id, producer_epoch=-5) is error


@pytest.mark.parametrize("timeout_ms", [0, 900_001])
async def test_a_timeout_out_of_range_is_refused(tx, timeout_ms):
    assert await tx.init(timeout_ms=timeout_ms) is ErrorCode.invalid_transaction_timeout


# --- AddPartitionsToTxn, AddOffsetsToTxn ---


async def test_partitions_are_added(tx):
    producer = await tx.init()
    assert await tx.add(producer, partitions=(0, 2)) == {("orders", 0): OK, ("orders", 2): OK}


async def test_if_one_partition_does_not_exist_none_is_added(tx):
    producer = await tx.init()
    topics = [
        {"name": "orders", "partitions": (0, 3)},
        {"name": "unknown", "partitions": (0,)},
        {"name": "__consumer_offsets", "partitions": (0,)},
    ]
    assert await tx.add(producer, topics=topics) == {
        ("orders", 0): ErrorCode.operation_not_attempted,
        ("orders", 3): ErrorCode.unknown_topic_or_partition,
        ("unknown", 0): ErrorCode.unknown_topic_or_partition,
        ("__consumer_offsets", 0): ErrorCode.topic_authorization_failed,
    }
    assert await tx.end(producer) is ErrorCode.invalid_txn_state


@pytest.mark.parametrize(
    ("version", "error"),
    [(1, ErrorCode.invalid_producer_epoch), (2, ErrorCode.producer_fenced)],
)
async def test_fencing_in_the_words_of_the_version(tx, version, error):
    old = await tx.init()
    await tx.init()
    assert await tx.add(old, version) == {("orders", 0): error}
    assert await tx.end(old, version) is error
    response = await tx.ask(
        "add_offsets_to_txn",
        version,
        transactional_id="tx",
        producer_id=old[0],
        producer_epoch=old[1],
        group_id="g",
    )
    assert response.error_code is error


async def test_an_empty_transactional_id_is_refused(tx):
    assert await tx.add((1, 0), name="") == {("orders", 0): ErrorCode.invalid_request}
    assert await tx.end((1, 0), name="") is ErrorCode.invalid_request
    offsets = await tx.ask("add_offsets_to_txn", 3, transactional_id="", group_id="g")
    assert offsets.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("version", [4, 5])
async def test_brokers_add_and_verify_partitions_of_many_transactions(tx, version):
    one, other = await tx.init(name="one"), await tx.init(name="other")
    topics = [{"name": "orders", "partitions": (0, 1)}]

    def transaction(name, producer, **fields):
        return {
            "transactional_id": name,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "verify_only": False,
            "topics": topics,
        } | fields

    response = await tx.ask(
        "add_partitions_to_txn",
        version,
        transactions=[
            transaction("one", one, topics=[{"name": "orders", "partitions": (0,)}]),
            transaction("one", one, verify_only=True),
            transaction("other", one),
            transaction("other", other, verify_only=True),
        ],
    )
    abortable, mapping = ErrorCode.transaction_abortable, ErrorCode.invalid_producer_id_mapping
    assert response.error_code is OK
    assert [
        [
            result.partition_error_code
            for each in transaction.topic_results
            for result in each.results_by_partition
        ]
        for transaction in response.results_by_transaction
    ] == [[OK], [OK, abortable], [mapping, mapping], [abortable, abortable]]


async def test_the_partition_of_a_group_joins_the_transaction(tx):
    producer = await tx.init()
    response = await tx.ask(
        "add_offsets_to_txn",
        3,
        transactional_id="tx",
        producer_id=producer[0],
        producer_epoch=producer[1],
        group_id="g",
    )
    assert response.error_code is OK
    assert await tx.end(producer, 3) is OK
    await turns(20)
    assert tx.bench.groups.ended == [(GROUP_PARTITION.partition, *producer, True)]


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_verification_of_offsets(tx, version):
    producer = await tx.init()
    verify = tx.bench.transactions.verify
    added = await verify(TransactionalProducer("tx", *producer), GROUP_PARTITION, add=version == 5)
    assert added is (OK if version == 5 else ErrorCode.transaction_abortable)
    assert await verify(TransactionalProducer("other", *producer), GROUP_PARTITION, add=True) is (
        ErrorCode.invalid_producer_id_mapping
    )


# --- Produce and EndTxn ---


async def test_the_first_write_of_v12_adds_the_partition(tx):
    producer = await tx.init()
    assert await tx.produce(producer, partitions=(0, 1)) == [OK, OK]
    assert await tx.produce(producer, sequence=1) == [OK]
    following = await tx.end(producer)
    assert following == (producer[0], producer[1] + 1)
    await turns(20)
    log = tx.bench.topics.log("orders", 0)
    assert (log.end_offset, log.last_stable_offset) == (3, 3)
    assert await tx.produce(following) == [OK]
    assert log.last_stable_offset == 3


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (9, ErrorCode.invalid_txn_state),
        (10, ErrorCode.invalid_txn_state),
        (11, ErrorCode.transaction_abortable),
    ],
)
async def test_older_versions_write_to_partitions_that_were_added(tx, version, error):
    producer = await tx.init()
    assert await tx.produce(producer, version, partitions=(0, 1)) == [error, error]
    await tx.add(producer)
    assert await tx.produce(producer, version, partitions=(0, 1)) == [OK, error]
    assert await tx.end(producer, 3) is OK


@pytest.mark.parametrize("version", [10, 11, 12])
async def test_writes_of_others_are_refused(tx, version):
    old = await tx.init()
    new = await tx.init()
    assert await tx.produce(old, version) == [ErrorCode.invalid_producer_epoch]
    assert await tx.produce((old[0] + 5, 0), version) == [ErrorCode.invalid_producer_id_mapping]
    assert await tx.produce(new, version, name="unknown") == [ErrorCode.invalid_producer_id_mapping]
    assert await tx.produce(new, version, name="") == [ErrorCode.invalid_request]
    assert tx.bench.topics.log("orders", 0).end_offset == 0


async def test_batches_of_two_producers_in_one_request_are_refused(tx):
    one, other = await tx.init(), await tx.init(name="other")
    partitions = [
        {
            "index": index,
            "records": batch_of(
                b"x",
                producer_id=producer[0],
                producer_epoch=0,
                base_sequence=0,
                attributes=TRANSACTIONAL,
            ),
        }
        for index, producer in enumerate((one, other))
    ]
    response = await tx.ask(
        "produce",
        12,
        transactional_id="tx",
        acks=-1,
        topic_data=[{"name": "orders", "partition_data": partitions}],
    )
    results = response.responses[0].partition_responses
    assert [result.error_code for result in results] == [ErrorCode.invalid_producer_id_mapping] * 2
    assert all(result.error_message for result in results)


@pytest.mark.parametrize("version", [9, 12])
async def test_two_batches_in_one_partition_begin_no_transaction(tx, version):
    producer = await tx.init()
    batch = batch_of(
        b"x",
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=0,
        attributes=TRANSACTIONAL,
    )
    response = await tx.ask(
        "produce",
        version,
        transactional_id="tx",
        acks=-1,
        topic_data=[{"name": "orders", "partition_data": [{"index": 0, "records": batch + batch}]}],
    )
    assert response.responses[0].partition_responses[0].error_code is ErrorCode.invalid_record
    assert await tx.end(producer, 4) is ErrorCode.invalid_txn_state


async def test_a_write_waits_a_moment_for_the_end_of_the_last_transaction(tx):
    producer = await tx.init()
    await tx.produce(producer)
    tx.bench.groups.gate.clear()
    following = await tx.end(producer)
    assert await tx.produce(following) == [ErrorCode.concurrent_transactions]
    assert await tx.produce(following, 11) == [ErrorCode.not_enough_replicas]
    waiting = asyncio.ensure_future(tx.produce(following))
    await asyncio.sleep(0)
    tx.bench.groups.gate.set()
    assert await waiting == [OK]


class MarkersFirst(RoutedVerifier):
    """A coordinator on another node, which consents once the last transaction has ended here."""

    def __init__(self, tx):
        self._tx = tx

    async def add_partitions(self, producer, partitions, client_version):
        coordinator = self._tx.bench.transactions
        self._tx.bench.groups.gate.set()
        await turns(20)
        return await coordinator.add_partitions(producer, partitions, client_version)


async def test_a_marker_that_comes_while_another_node_is_asked_refuses_no_batch(tx):
    producer = await tx.init()
    await tx.produce(producer)
    tx.bench.groups.gate.clear()
    following = await tx.end(producer)
    tx.bench.verifier = MarkersFirst(tx)
    assert await tx.produce(following) == [OK]


@pytest.mark.parametrize("first", ["partitions", "offsets"])
async def test_the_first_addition_waits_for_the_end_of_the_last_transaction(tx, first):
    producer = await tx.init()
    await tx.add(producer)
    tx.bench.groups.gate.clear()
    await tx.end(producer, 3)
    asyncio.get_running_loop().call_soon(tx.bench.groups.gate.set)
    if first == "partitions":
        assert await tx.add(producer) == {(tx.topic, 0): OK}
    else:
        response = await tx.ask(
            "add_offsets_to_txn",
            0,
            transactional_id="tx",
            producer_id=producer[0],
            producer_epoch=producer[1],
            group_id="group",
        )
        assert response.error_code == OK


async def test_an_aborted_transaction(tx):
    producer = await tx.init()
    await tx.produce(producer)
    assert await tx.end(producer, commit=False) == (producer[0], producer[1] + 1)
    await turns(20)
    log = tx.bench.topics.log("orders", 0)
    _, aborted = log.read_committed(0, 1 << 20)
    assert [(transaction.producer_id, transaction.first_offset) for transaction in aborted] == [
        (producer[0], 0)
    ]


# --- WriteTxnMarkers ---


@pytest.mark.parametrize("version", [1, 2])
async def test_markers_of_an_administrator_end_a_transaction_that_hangs(tx, version):
    producer = await tx.init()
    await tx.produce(producer)
    log = tx.bench.topics.log("orders", 0)
    assert log.last_stable_offset == 0
    response = await tx.ask(
        "write_txn_markers",
        version,
        markers=[
            {
                "producer_id": producer[0],
                "producer_epoch": producer[1],
                "transaction_result": False,
                "topics": [{"name": "orders", "partition_indexes": (0, 7)}],
                "coordinator_epoch": 0,
                "transaction_version": 0,
            }
        ],
    )
    (marker,) = response.markers
    assert marker.producer_id == producer[0]
    assert [partition.error_code for partition in marker.topics[0].partitions] == [
        OK,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert log.last_stable_offset == log.end_offset == 2


@pytest.mark.parametrize(
    ("wild", "error"),
    [
        ({"producer_id": -1}, ErrorCode.unknown_server_error),
        ({"producer_epoch": -1}, ErrorCode.unknown_server_error),
        ({"transaction_version": -1}, ErrorCode.unknown_server_error),
        ({"coordinator_epoch": -2}, ErrorCode.transaction_coordinator_fenced),
        ({"coordinator_epoch": -1}, OK),
    ],
)
async def test_markers_of_no_producer_are_refused(tx, wild, error):
    marker = {
        "producer_id": 90_001,
        "producer_epoch": 0,
        "transaction_result": True,
        "topics": [{"name": "orders", "partition_indexes": (0,)}],
        "coordinator_epoch": 0,
        "transaction_version": 0,
    }
    response = await tx.ask("write_txn_markers", 2, markers=[marker | wild])
    assert response.markers[0].topics[0].partitions[0].error_code == error
    assert tx.bench.topics.log("orders", 0).end_offset == (not error)


# --- DescribeTransactions, ListTransactions ---


async def test_transactions_are_described_by_id(tx):
    producer = await tx.init()
    await tx.produce(producer, partitions=(1, 0))
    response = await tx.ask("describe_transactions", 0, transactional_ids=["tx", "unknown", ""])
    known, unknown, empty = response.transaction_states
    assert (known.error_code, known.transaction_state) == (OK, "Ongoing")
    assert (known.producer_id, known.producer_epoch) == producer
    assert known.transaction_start_time.timestamp() * 1_000 == tx.bench.clock.timestamp()
    assert [(topic.topic, topic.partitions) for topic in known.topics] == [("orders", (0, 1))]
    assert unknown.error_code is ErrorCode.transactional_id_not_found
    assert empty.error_code is ErrorCode.invalid_request


async def listed(tx, version=2, **fields):
    response = await tx.ask("list_transactions", version, **fields)
    if response.error_code:
        return response.error_code
    return {
        state.transactional_id: state.transaction_state for state in response.transaction_states
    }


async def test_transactions_are_listed_by_state_producer_pattern_and_duration(tx):
    producer = await tx.init()
    await tx.produce(producer)
    other = await tx.init(name="other")
    assert await listed(tx) == {"tx": "Ongoing", "other": "Empty"}
    assert await listed(tx, state_filters=["Ongoing"]) == {"tx": "Ongoing"}
    assert await listed(tx, state_filters=["Odd"]) == {}
    assert await listed(tx, producer_id_filters=[other[0]]) == {"other": "Empty"}
    assert await listed(tx, transactional_id_pattern="t.") == {"tx": "Ongoing"}
    assert await listed(tx, transactional_id_pattern="") == {"tx": "Ongoing", "other": "Empty"}
    assert await listed(tx, transactional_id_pattern="(") is ErrorCode.invalid_regular_expression
    tx.bench.clock.ms += 1_000
    assert await listed(tx, duration_filter=1_000) == {"other": "Empty"}
    assert await listed(tx, duration_filter=999) == {"tx": "Ongoing", "other": "Empty"}


async def test_states_that_do_not_exist_are_named(tx):
    response = await tx.ask("list_transactions", 0, state_filters=["Odd", "Empty", "Odd"])
    assert list(response.unknown_state_filters) == ["Odd"]
    refused = {"state_filters": ["Odd"], "transactional_id_pattern": "("}
    assert not (await tx.ask("list_transactions", 2, **refused)).unknown_state_filters


# --- bounds ---


async def test_no_request_with_many_partitions_holds_up_the_loop(tx):
    tx.bench.controller.topics.create("many", 2_000)
    producer = await tx.init()
    topics = [{"name": "many", "partitions": tuple(range(2_000))}]
    longest, errors = await longest_turn_ms(tx.add(producer, topics=topics))
    assert longest < BOUND_MS
    assert set(errors.values()) == {OK}
    longest, _ = await longest_turn_ms(tx.end(producer, 3))
    assert longest < BOUND_MS
    longest, _ = await longest_turn_ms(settled_markers(tx))
    assert longest < BOUND_MS


async def settled_markers(tx):
    await tx.bench.topics.log("many", 1_999).wait_beyond(0)
