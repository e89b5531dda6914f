"""DescribeLogDirs, DescribeQuorum, ElectLeaders, AlterPartitionReassignments and their like."""

from pathlib import Path
from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.protocol.batches import TRANSACTIONAL, Record, build
from server.handlers.bench import START, HandlerBench, HungUpError

UNKNOWN = ErrorCode.unknown_topic_or_partition


class TestDescribeLogDirs:
    @pytest.mark.parametrize("version", range(1, 6))
    async def test_log_dirs_have_the_sizes_of_the_partitions_that_exist(
        self, bench: HandlerBench, topic: str, version: int
    ) -> None:
        bench.fill(topic, 1, records=3)
        asked = [{"topic": topic, "partitions": [0, 1, 9]}, {"topic": "nope", "partitions": [0]}]
        response = await bench.ask("describe_log_dirs", version, topics=asked)
        (directory,) = response.results
        assert (directory.error_code, directory.log_dir) == (ErrorCode.none, "memory")
        assert [each.name for each in directory.topics] == [topic]
        size = bench.topics.log(topic, 1).size  # type: ignore[union-attr]
        assert size > 0
        assert [
            (
                partition.partition_index,
                partition.partition_size,
                partition.offset_lag,
                partition.is_future_key,
            )
            for partition in directory.topics[0].partitions
        ] == [(0, 0, 0, False), (1, size, 0, False)]
        if version >= 4:
            assert (directory.total_bytes, directory.usable_bytes) == (-1, -1)

    async def test_all_partitions_or_none(self, bench: HandlerBench, topic: str) -> None:
        (directory,) = (await bench.ask("describe_log_dirs", 4, topics=None)).results
        assert [(each.name, len(each.partitions)) for each in directory.topics] == [(topic, 3)]
        (directory,) = (await bench.ask("describe_log_dirs", 4, topics=())).results
        assert directory.topics == ()

    async def test_a_directory_and_its_volume(self, tmp_path: Path) -> None:
        bench = HandlerBench(storage="local", log_dir=str(tmp_path))
        (directory,) = (await bench.ask("describe_log_dirs", 4, topics=())).results
        assert directory.log_dir == str(tmp_path)
        assert 0 <= directory.usable_bytes <= directory.total_bytes
        bench = HandlerBench(storage="local", log_dir=str(tmp_path / "gone"))
        (directory,) = (await bench.ask("describe_log_dirs", 4, topics=())).results
        assert directory.error_code is ErrorCode.kafka_storage_error

    async def test_more_partitions_than_are_described_in_one_turn(
        self, bench: HandlerBench
    ) -> None:
        bench.controller.topics.create("wide", 600)
        (directory,) = (await bench.ask("describe_log_dirs", 4, topics=None)).results
        assert len(directory.topics[0].partitions) == 600


class TestDescribeQuorum:
    @pytest.mark.parametrize("version", range(3))
    async def test_the_only_voter(self, bench: HandlerBench, version: int) -> None:
        asked = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        response = await bench.ask("describe_quorum", version, topics=asked)
        (partition,) = response.topics[0].partitions
        end = bench.controller.metadata.end_offset
        assert end > 0
        assert (response.error_code, partition.error_code) == (ErrorCode.none, ErrorCode.none)
        assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (
            0,
            1,
            end,
        )
        (voter,) = partition.current_voters
        assert (voter.replica_id, voter.log_end_offset) == (0, end)
        if version >= 2:
            (listener,) = response.nodes[0].listeners
            assert (listener.name, listener.host, listener.port) == (
                "CONTROLLER",
                "broker.test",
                9092,
            )

    @pytest.mark.parametrize(
        "asked",
        [[("orders", [0])], [("__cluster_metadata", [1])], [("__cluster_metadata", [0])] * 2],
    )
    async def test_describe_quorum_of_other_partitions_is_unknown(
        self, bench: HandlerBench, asked: list[tuple[str, list[int]]]
    ) -> None:
        topics = [
            {"topic_name": name, "partitions": [{"partition_index": index} for index in indexes]}
            for name, indexes in asked
        ]
        response = await bench.ask("describe_quorum", 2, topics=topics)
        assert [
            (
                topic.topic_name,
                [
                    (partition.partition_index, partition.error_code)
                    for partition in topic.partitions
                ],
            )
            for topic in response.topics
        ] == [(name, [(index, UNKNOWN) for index in indexes]) for name, indexes in asked]


class TestElectLeaders:
    async def elect(
        self, bench: HandlerBench, asked: Any, version: int = 2, election: int = 0
    ) -> Any:
        response = await bench.ask(
            "elect_leaders",
            version,
            election_type=election,
            topic_partitions=asked,
            timeout_ms=1_000,
        )
        results = [
            (result.topic, [(one.partition_id, one.error_code) for one in result.partition_result])
            for result in response.replica_election_results
        ]
        return getattr(response, "error_code", None), results

    @pytest.mark.parametrize("version", range(3))
    async def test_elections_of_leaders_are_never_needed(
        self, bench: HandlerBench, topic: str, version: int
    ) -> None:
        asked = [{"topic": topic, "partitions": [0, 9]}, {"topic": "nope", "partitions": [0]}]
        code, results = await self.elect(bench, asked, version)
        assert code in (None, ErrorCode.none)
        needless = ErrorCode.election_not_needed
        assert results == [(topic, [(0, needless), (9, UNKNOWN)]), ("nope", [(0, UNKNOWN)])]

    async def test_an_election_for_all_partitions_lists_no_partition(
        self, bench: HandlerBench, topic: str
    ) -> None:
        assert await self.elect(bench, None) == (ErrorCode.none, [(topic, [])])

    async def test_an_unknown_type(self, bench: HandlerBench, topic: str) -> None:
        refused = ErrorCode.invalid_request
        asked = [{"topic": topic, "partitions": [0]}]
        assert await self.elect(bench, asked, election=5) == (refused, [(topic, [(0, refused)])])


@pytest.mark.parametrize("version", range(2))
async def test_replicas_stay_where_they_are(bench: HandlerBench, topic: str, version: int) -> None:
    wanted: list[tuple[int, list[int] | None]] = [
        (0, [0]),
        (0, None),
        (0, []),
        (0, [0, 0]),
        (0, [7]),
        (9, [0]),
    ]
    partitions = [{"partition_index": index, "replicas": ids} for index, ids in wanted]
    response = await bench.ask(
        "alter_partition_reassignments",
        version,
        timeout_ms=1_000,
        topics=[
            {"name": topic, "partitions": partitions},
            {"name": "nope", "partitions": partitions[:1]},
        ],
    )
    assert (response.error_code, response.error_message) == (ErrorCode.none, None)
    invalid = ErrorCode.invalid_replica_assignment
    assert [partition.error_code for partition in response.responses[0].partitions] == [
        ErrorCode.none,
        ErrorCode.no_reassignment_in_progress,
        invalid,
        invalid,
        invalid,
        UNKNOWN,
    ]
    assert [partition.error_code for partition in response.responses[1].partitions] == [UNKNOWN]


class TestDescribeProducers:
    async def describe(self, bench: HandlerBench, *asked: tuple[str, list[int]]) -> Any:
        topics = [{"name": name, "partition_indexes": indexes} for name, indexes in asked]
        return (await bench.ask("describe_producers", 0, topics=topics)).topics

    def produce(self, bench: HandlerBench, topic: str, producer_id: int) -> None:
        log = bench.topics.log(topic, 0)
        assert log is not None
        records = [Record(None, b"x", (), START)] * 3
        batch = build(records, producer_id=producer_id, producer_epoch=4, base_sequence=0)
        log.append(batch, bench.clock.timestamp())

    async def test_active_producers_of_a_partition_are_described(
        self, bench: HandlerBench, topic: str
    ) -> None:
        self.produce(bench, topic, 17)
        (told,) = await self.describe(bench, (topic, [0, 1, 9]))
        (producer,) = told.partitions[0].active_producers
        assert (
            producer.producer_id,
            producer.producer_epoch,
            producer.last_sequence,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.current_txn_start_offset,
        ) == (17, 4, 2, START, -1, -1)
        assert told.partitions[1].active_producers == ()
        assert told.partitions[2].error_code is UNKNOWN

    async def test_producers_of_open_and_ended_transactions_are_described(
        self, bench: HandlerBench, topic: str
    ) -> None:
        log = bench.topics.log(topic, 0)
        assert log is not None
        ongoing = {"producer_id": 17, "producer_epoch": 4, "attributes": TRANSACTIONAL}
        guard = log.begin_verification(17, 4, -1, START, tv2=False)
        log.append(build([Record(None, b"x", (), START)], **ongoing), START, verified=guard)
        log.append_marker(
            18, 6, commit=True, coordinator_epoch=3, transaction_version=2, timestamp=START
        )
        (told,) = await self.describe(bench, (topic, [0]))
        assert [
            (
                producer.producer_id,
                producer.producer_epoch,
                producer.last_sequence,
                producer.last_timestamp,
                producer.coordinator_epoch,
                producer.current_txn_start_offset,
            )
            for producer in told.partitions[0].active_producers
        ] == [(17, 4, -1, START, -1, 0), (18, 6, -1, START, 3, -1)]

    async def test_producers_of_missing_topics_are_an_error(self, bench: HandlerBench) -> None:
        none, bad = await self.describe(bench, ("nope", [0]), ("bad name", [0]))
        assert none.partitions[0].error_code is UNKNOWN
        assert bad.partitions[0].error_code is ErrorCode.invalid_topic_exception

    async def test_a_partition_of_many_producers_is_described_once(
        self, bench: HandlerBench, topic: str
    ) -> None:
        for producer_id in range(10_000):
            self.produce(bench, topic, producer_id)
        (told,) = await self.describe(bench, (topic, [0, 0, 0]))
        assert [len(partition.active_producers) for partition in told.partitions] == [
            10_000,
            10_000,
            0,
        ]
        assert told.partitions[2].error_code is ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([], ErrorCode.none),
        ([("user", 0, "x"), ("client-id", 2, None)], ErrorCode.none),
        ([("ip", 1, None)], ErrorCode.none),
        ([("user", 0, None)], ErrorCode.invalid_request),
        ([("user", 2, "x")], ErrorCode.invalid_request),
        ([("user", 9, None)], ErrorCode.invalid_request),
        ([("", 1, None)], ErrorCode.invalid_request),
        ([("user", 1, None), ("user", 2, None)], ErrorCode.invalid_request),
        ([("user", 1, None), ("ip", 2, None)], ErrorCode.invalid_request),
        ([("tenant", 1, None)], ErrorCode.unsupported_version),
    ],
)
async def test_filters_of_quotas_are_validated(
    bench: HandlerBench, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    asked = [
        {"entity_type": entity, "match_type": kind, "match": match}
        for entity, kind, match in components
    ]
    for version in range(2):
        response = await bench.ask("describe_client_quotas", version, components=asked)
        assert (response.error_code, response.entries) == (code, None if code else ())


@pytest.mark.parametrize(
    ("names", "results"),
    [
        (None, []),
        ([], []),
        (["a"], [("a", ErrorCode.resource_not_found)]),
        (
            ["b", "a", "b"],
            [("b", ErrorCode.duplicate_resource), ("a", ErrorCode.resource_not_found)],
        ),
    ],
)
async def test_scram_credentials_of_unknown_users_are_not_found(
    bench: HandlerBench, names: list[str] | None, results: list[tuple[str, ErrorCode]]
) -> None:
    users = None if names is None else [{"name": name} for name in names]
    response = await bench.ask("describe_user_scram_credentials", 0, users=users)
    assert response.error_code is ErrorCode.none
    assert [(result.user, result.error_code) for result in response.results] == results


async def test_describe_acls_without_an_authorizer_is_disabled(bench: HandlerBench) -> None:
    any_acl = {
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
    }
    for version in range(1, 4):
        response = await bench.ask("describe_acls", version, **any_acl)
        assert (response.error_code, response.resources) == (ErrorCode.security_disabled, ())
    for field in any_acl:
        with pytest.raises(HungUpError):
            await bench.ask("describe_acls", 3, **any_acl | {field: 0})


def levels(answer: Any) -> list[tuple[str, int, int]]:
    """The features in force."""
    return [
        (feature.name, feature.min_version_level, feature.max_version_level)
        for feature in answer.finalized_features
    ]


LEVELS = [("group.version", 1, 1), ("metadata.version", 33, 33), ("transaction.version", 2, 2)]
"""Names, and lowest and highest level, of the features in force."""


class TestFeatures:
    async def update(
        self, bench: HandlerBench, version: int, *updates: dict[str, Any]
    ) -> ErrorCode:
        response = await bench.ask(
            "update_features", version, feature_updates=updates, timeout_ms=1_000
        )
        if version < 2:
            named = () if response.error_code else tuple(update["feature"] for update in updates)
            assert tuple(result.feature for result in response.results) == named
        code: ErrorCode = response.error_code
        return code

    async def test_the_release_is_told(self, bench: HandlerBench) -> None:
        response = await bench.ask(
            "api_versions", 4, client_software_name="t", client_software_version="1"
        )
        assert [
            (feature.name, feature.min_version, feature.max_version)
            for feature in response.supported_features
        ] == [("group.version", 0, 1), ("metadata.version", 7, 33), ("transaction.version", 0, 2)]
        assert levels(response) == LEVELS

    async def test_older_clients_do_not_see_a_feature_whose_lowest_level_is_0(
        self, bench: HandlerBench
    ) -> None:
        response = await bench.ask(
            "api_versions", 3, client_software_name="t", client_software_version="1"
        )
        assert [feature.name for feature in response.supported_features] == ["metadata.version"]
        assert levels(response) == LEVELS

    @pytest.mark.parametrize("version", range(3))
    async def test_the_level_in_force_is_accepted(self, bench: HandlerBench, version: int) -> None:
        kept = {"feature": "metadata.version", "max_version_level": 33}
        assert await self.update(bench, version, kept) is ErrorCode.none
        assert await self.update(bench, version) is ErrorCode.none

    @pytest.mark.parametrize(
        ("name", "level", "kind"),
        [
            ("metadata.version", 25, 1),
            ("metadata.version", 25, 2),
            ("metadata.version", 25, 3),
            ("metadata.version", 34, 1),
            ("metadata.version", 0, 2),
            ("metadata.version", -1, 1),
            ("metadata.version", 33, 0),
            ("transaction.version", 3, 1),
            ("transaction.version", 0, 2),
            ("group.version", 2, 1),
            ("share.version", 1, 1),
        ],
    )
    async def test_all_else_is_refused(
        self, bench: HandlerBench, name: str, level: int, kind: int
    ) -> None:
        kept = {"feature": "metadata.version", "max_version_level": 33, "upgrade_type": 1}
        update = {"feature": name, "max_version_level": level, "upgrade_type": kind}
        for version in (1, 2):
            code = await self.update(bench, version, kept, update)
            assert code is ErrorCode.invalid_update_version

    @pytest.mark.parametrize(
        ("kind", "why"),
        [
            (2, "Refusing to perform the requested downgrade because it might delete metadata "
                "information."),
            (3, "Unsafe metadata downgrade is not supported in this version."),
        ],
    )  # fmt: skip
    async def test_the_text_of_a_refused_downgrade_is_that_of_kafka(
        self, bench: HandlerBench, kind: int, why: str
    ) -> None:
        update = {"feature": "metadata.version", "max_version_level": 30, "upgrade_type": kind}
        response = await bench.ask("update_features", 2, feature_updates=[update], timeout_ms=1_000)
        assert response.error_message == (
            "The update failed for all features since the following feature had an error: "
            f"Unsupported metadata.version downgrade from 33 to 30. {why}"
        )

    async def test_a_downgrade_of_the_first_version(self, bench: HandlerBench) -> None:
        update = {"feature": "metadata.version", "max_version_level": 25, "allow_downgrade": True}
        assert await self.update(bench, 0, update) is ErrorCode.invalid_update_version
