"""Options: each by its name, and what is wrong told by its name. No Spark is needed."""

import pickle

import pytest

from client.conftest import certificate
from kohort.client.properties import RefusedOptionsError
from kohort.client.security.client_credentials import ClientCredentials
from kohort.errors import ConfigError
from kohort.spark import kafka_options
from kohort.spark.membership import group_options, validate_group
from kohort.spark.options import Bound, GroupMode, TopicSubscription, parse_read
from kohort.spark.positions import EARLIEST, LATEST
from kohort.spark.source import KohortDataSource
from kohort.spark.write_options import parse_write
from kohort.types import TopicPartition

__all__ = ["certificate"]

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def batch(**more):
    return parse_read(with_dots(more), streaming=False)


def stream(**more):
    return parse_read(with_dots(more), streaming=True)


def with_dots(more):
    """`BASE` with these; __ stands for a dot, None takes an option away."""
    given = BASE | {name.replace("__", "."): value for name, value in more.items()}
    return {name: value for name, value in given.items() if value is not None}


class TestSubscription:
    def test_subscribe_lists_topics_once(self):
        assert batch(subscribe="a, b,a").subscription == TopicSubscription(topics=("a", "b"))

    def test_subscribe_pattern_is_a_pattern(self):
        assert batch(subscribe=None, subscribePattern="a.*").subscription == TopicSubscription(
            pattern="a.*"
        )

    def test_assign_lists_partitions_in_order(self):
        found = batch(subscribe=None, assign='{"b": [1, 0], "a": [2]}').subscription
        assert found.partitions == (
            TopicPartition("a", 2),
            TopicPartition("b", 0),
            TopicPartition("b", 1),
        )

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (
                {"subscribe": None},
                "one of the options assign, subscribe, subscribePattern .* none is given",
            ),
            ({"subscribePattern": "a"}, "subscribe and subscribePattern contradict each other"),
            ({"subscribe": " , "}, "option subscribe names no topic"),
            ({"subscribe": None, "subscribePattern": ""}, "option subscribePattern is empty"),
            (
                {"subscribe": None, "subscribePattern": "("},
                "option subscribePattern is no regular expression",
            ),
            ({"subscribe": None, "assign": '{"a": 1}'}, "option assign is not JSON such as"),
            (
                {"subscribe": None, "assign": '{"a": [-1]}'},
                "option assign names no partition, or one below 0",
            ),
            ({"subscribe": None, "assign": '{"a": [true]}'}, "option assign is not JSON"),
        ],
    )
    def test_contradicting_subscriptions_are_refused(self, options, says):
        with pytest.raises(ConfigError, match=says):
            batch(**options)


class TestState:
    def test_stateful_member_is_accepted_for_members_only(self):
        assert not stream(group__id="etl").stateful_member
        given = {"statefulMember": "true"}
        assert stream(group__id="etl", **given).stateful_member
        with pytest.raises(ConfigError, match="option statefulMember: it is for members"):
            stream(**given)


class TestTransactionalSink:
    def test_a_transactional_sink_is_accepted_for_a_member(self):
        assert stream(group__id="etl").transactional_sink is None
        assert stream(group__id="etl", transactionalSink="t").transactional_sink == "t"

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"transactionalSink": "t"}, "it is for members without state"),
            (
                {"group__id": "etl", "groupMode": "reporting", "transactionalSink": "t"},
                "it is for members without state",
            ),
            (
                {"group__id": "etl", "statefulMember": "true", "transactionalSink": "t"},
                "it is for members without state",
            ),
            ({"group__id": "etl", "transactionalSink": ""}, "is empty; it is the kafka.trans"),
        ],
    )
    def test_a_transactional_sink_is_refused_for_others_than_members(self, options, says):
        with pytest.raises(ConfigError, match=f"option transactionalSink.*{says}"):
            stream(**options)


class TestBounds:
    def test_offsets_of_a_checkpoint_can_be_starting_offsets(self):
        text = '{"@ids": {"a": "x"}, "@begin": {"a": {"0": 1}}, "a": {"0": 5}}'
        assert stream(startingOffsets=text).starting.offsets == {TopicPartition("a", 0): 5}

    def test_defaults_are_those_of_sparks_source(self):
        assert batch().starting.everywhere == EARLIEST
        assert batch().ending.everywhere == LATEST
        assert stream().starting.everywhere == LATEST

    def test_bounds_are_parsed_from_offsets(self):
        found = batch(
            startingOffsets='{"orders": {"0": 23, "1": -2}}',
            endingOffsets='{"orders": {"0": -1, "1": 5}}',
        )
        assert found.starting.offsets == {
            TopicPartition("orders", 0): 23,
            TopicPartition("orders", 1): EARLIEST,
        }
        assert found.ending.offsets == {
            TopicPartition("orders", 0): LATEST,
            TopicPartition("orders", 1): 5,
        }

    def test_bounds_are_parsed_from_timestamps(self):
        assert batch(startingTimestamp="1000").starting == Bound(
            option="startingTimestamp", timestamp=1000
        )
        found = batch(endingOffsetsByTimestamp='{"orders": {"0": 9}}').ending
        assert found == Bound(
            option="endingOffsetsByTimestamp", timestamps={TopicPartition("orders", 0): 9}
        )

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"startingOffsets": "latest"}, "option startingOffsets is latest"),
            ({"startingOffsets": '{"orders": {"0": -1}}'}, "option startingOffsets is latest"),
            ({"endingOffsets": "earliest"}, "option endingOffsets is earliest"),
            (
                {"endingOffsets": '{"orders": {"0": -2}}'},
                "option endingOffsets: -2 of orders-0 is out of bounds",
            ),
            ({"startingOffsets": "newest"}, "option startingOffsets is not JSON"),
            ({"startingOffsets": '{"orders": {"0": 1.5}}'}, "option startingOffsets is not JSON"),
            ({"startingTimestamp": "noon"}, "option startingTimestamp is 'noon'"),
            (
                {"startingTimestamp": "1", "startingOffsets": "earliest"},
                "startingTimestamp and startingOffsets contradict",
            ),
            ({"startingOffsets": ""}, "option startingOffsets is not JSON"),
            (
                {"startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "later"},
                "option startingOffsetsByTimestampStrategy is 'later'; it is one of error, latest",
            ),
            (
                {"startingOffsetsByTimestampStrategy": "latest"},
                "option startingOffsetsByTimestampStrategy has no effect without startingTimestamp",
            ),
            (
                {"endingTimestamp": "1", "endingOffsetsByTimestamp": "{}"},
                "endingTimestamp and endingOffsetsByTimestamp contradict",
            ),
        ],
    )
    def test_invalid_bounds_are_refused(self, options, says):
        with pytest.raises(ConfigError, match=says):
            batch(**options)

    def test_a_stream_has_no_end(self):
        with pytest.raises(ConfigError, match="option endingOffsets: a stream has no end"):
            stream(endingOffsets="latest")


def files(**more):
    return batch(**{"kafka__bootstrap__servers": None, "path": "/data"} | more)


class TestFiles:
    def test_paths_are_separated_by_commas(self):
        assert files(path="/a, s3://b/c,/a").paths == ("/a", "s3://b/c")
        assert batch().paths == ()

    def test_topics_may_be_left_out(self):
        assert files(subscribe=None).subscription == TopicSubscription()
        assert files(subscribe=None, subscribePattern="o.*").subscription.pattern == "o.*"

    def test_damage_may_be_rows(self):
        assert files(damagedBatches="rows", includeBatchFields="true").damaged_rows
        assert not files(damagedBatches="loss").damaged_rows

    def test_options_of_brokers_have_no_effect(self):
        found = files(
            kafka__client__id="x", fetchOffset__numRetries="3", kafka__check__crcs="false"
        )
        assert dict(found.without_effect) == dict.fromkeys(
            ("kafka.client.id", "fetchOffset.numRetries"), "files are read, and no broker"
        )

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"path": " , "}, "option path names no directory"),
            (
                {"kafka__bootstrap__servers": "localhost:9092"},
                "options path and kafka.bootstrap.servers contradict each other; give path to",
            ),
            (
                {"kafka__isolation__level": "read_committed"},
                "option kafka.isolation.level is read_committed: the files of a log do not tell",
            ),
            ({"readRanges": "true"}, "option readRanges: it is for reads from brokers"),
            (
                {"damagedBatches": "rows"},
                "option damagedBatches is rows: their column control needs includeBatchFields",
            ),
            ({"damagedBatches": "skip"}, "option damagedBatches is 'skip'; it is one of"),
            ({"subscribe": "a", "assign": "{}"}, "assign and subscribe contradict each other"),
            ({"path": None}, "option kafka.bootstrap.servers is missing"),
            (
                {
                    "path": None, "damagedBatches": "rows", "includeBatchFields": "true",
                    "kafka__bootstrap__servers": "localhost:9092",
                    "kafka__isolation__level": "read_committed",
                },
                "option damagedBatches is rows: a damaged batch may be the end of a transaction",
            ),
        ],
    )  # fmt: skip
    def test_contradicting_options_are_refused(self, options, says):
        with pytest.raises(ConfigError, match=says):
            files(**options)

    def test_a_stream_reads_no_files(self):
        with pytest.raises(ConfigError, match="option path: a stream reads from brokers"):
            stream(path="/data", kafka__bootstrap__servers=None)

    def test_load_accepts_files_without_brokers(self):
        source = KohortDataSource({"path": "/data", "subscribe": "orders"})
        assert "control" not in source.schema().names
        with pytest.raises(ConfigError, match="option path names no directory"):
            KohortDataSource({"path": "", "subscribe": "orders"}).schema()


class TestTheRest:
    def test_numbers_and_flags_are_parsed(self):
        found = stream(
            maxOffsetsPerTrigger="10",
            minPartitions="4",
            failOnDataLoss="FALSE",
            includeHeaders="true",
        )
        assert (found.max_offsets_per_trigger, found.min_partitions) == (10, 4)
        assert (found.fail_on_data_loss, found.include_headers) == (False, True)
        assert stream().fail_on_data_loss
        assert stream(includeBatchFields="true").include_batch_fields
        assert not batch().include_batch_fields
        assert stream(readRanges="true").read_ranges
        assert batch(readRanges="true").read_ranges

    def test_the_micro_batches_of_a_member_have_a_limit(self):
        assert stream().max_offsets_per_trigger is None
        assert stream(group__id="etl", groupMode="reporting").max_offsets_per_trigger is None
        assert stream(group__id="etl").max_offsets_per_trigger == 1_000_000
        assert stream(group__id="etl", maxOffsetsPerTrigger="5").max_offsets_per_trigger == 5

    def test_properties_of_a_table_are_no_options(self):
        """Spark's catalog passes them with the options of `CREATE TABLE … USING kohort`."""
        assert batch(provider="kohort", owner="ann", **{"option.subscribe": "orders"}) == batch()

    def test_names_are_compared_without_regard_to_case(self):
        assert stream(MAXOFFSETSPERTRIGGER="10").max_offsets_per_trigger == 10

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"minPartition": "3"}, "option minpartition is not known; is it minPartitions"),
            (
                {"minPartitions": "0"},
                "option minPartitions is '0'; it has to be a whole number from 1 on",
            ),
            ({"failOnDataLoss": "yes"}, "option failOnDataLoss is 'yes'; it is one of true, false"),
            ({"failOnDataLoss": ""}, "option failOnDataLoss is ''; it is one of true, false"),
            ({"includeHeaders": "1"}, "option includeHeaders is '1'; it is one of true, false"),
            ({"includeBatchFields": "yes"}, "option includeBatchFields is 'yes'; it is one of"),
            ({"maxRecordsPerPartition": "many"}, "option maxRecordsPerPartition is 'many'"),
            (
                {"group__id": "etl"},
                "option group.id: a batch has neither group nor checkpoint",
            ),
            ({"kafka__bootstrap__servers": None}, "option kafka.bootstrap.servers is missing"),
            (
                {"kafka__bootstrap__servers": "nowhere"},
                "kafka.*: bootstrap server 'nowhere' is not HOST:PORT",
            ),
            (
                {"kafka__client__ids": "x"},
                "option kafka.client.ids is not known; is it kafka.client.id",
            ),
            ({"kafka__request__timeout__ms": "soon"}, "option kafka.request.timeout.ms is 'soon'"),
            (
                {"kafka__request__timeout__ms": "0"},
                "kafka.request.timeout.ms is 0; it has to be a whole number from 1",
            ),
            ({"kafka__fetch__max__bytes": "lots"}, "option kafka.fetch.max.bytes is 'lots'"),
            ({"kafka__fetch__max__wait__ms": "-1"}, "option kafka.fetch.max.wait.ms is '-1'"),
            (
                {"kafka__max__partition__fetch__bytes": str(2**31)},
                "whole number from 0 to 2147483647",
            ),
            ({"kafka__check__crcs": "no"}, "option kafka.check.crcs is 'no'"),
            (
                {"kafka__isolation__level": "serializable"},
                "option kafka.isolation.level is 'serializable'",
            ),
        ],
    )
    def test_invalid_values_and_unknown_options_are_refused(self, options, says):
        with pytest.raises(ConfigError, match=says):
            batch(**options)

    def test_waits_of_triggers_and_offset_queries_are_parsed(self):
        found = stream(
            minOffsetsPerTrigger="10", maxTriggerDelay="2m", maxOffsetsPerTrigger="20",
            kafkaConsumer__pollTimeoutMs="7000",
            fetchOffset__numRetries="5", fetchOffset__retryIntervalMs="20",
        )  # fmt: skip
        assert (found.min_offsets_per_trigger, found.max_trigger_delay_ms) == (10, 120_000)
        assert found.poll_timeout_ms == 7_000
        assert (found.offset_attempts, found.offset_retry_interval_ms) == (5, 20)
        assert stream(minOffsetsPerTrigger="10").max_trigger_delay_ms == 900_000

    @pytest.mark.parametrize(
        ("text", "ms"),
        [("90", 90), ("90ms", 90), ("15m", 900_000), ("2min", 120_000), ("1H", 3_600_000)],
    )
    def test_times_are_written_as_in_spark(self, text, ms):
        assert stream(maxTriggerDelay=text, minOffsetsPerTrigger="1").max_trigger_delay_ms == ms

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"maxTriggerDelay": "soon"}, "option maxTriggerDelay is 'soon'; .* such as 30s"),
            (
                {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
                "option maxOffsetsPerTrigger is 4, less than minOffsetsPerTrigger, 5",
            ),
            ({"fetchOffset__numRetries": "0"}, "option fetchOffset.numRetries is '0'"),
            ({"fetchOffset__retryIntervalMs": "-1"}, "option fetchOffset.retryIntervalMs is '-1'"),
        ],
    )
    def test_invalid_waits_are_refused(self, options, says):
        with pytest.raises(ConfigError, match=says):
            stream(**options)

    @pytest.mark.parametrize(
        ("option", "advice"),
        [
            ("kafka.auto.offset.reset", "set startingOffsets instead"),
            ("kafka.enable.auto.commit", "the query commits by groupMode"),
            ("kafka.config.providers", "resolve the values in the program"),
            ("kafka.ssl.engine.factory.class", "name stores in kafka.ssl.truststore"),
        ],
    )
    def test_an_unsupported_option_that_would_change_results_is_refused(self, option, advice):
        with pytest.raises(
            ConfigError, match=(f"option {option} is not supported, leave it out: {advice}")
        ):
            stream(**{option: "1"})

    def test_the_isolation_level_is_that_of_kafka(self):
        assert batch(kafka__isolation__level="read_committed").isolation == "read_committed"

    def test_options_can_be_pickled_for_workers(self):
        found = stream(startingOffsets='{"orders": {"0": 23}}', group__id="etl")
        assert pickle.loads(pickle.dumps(found)) == found


class TestWithoutEffect:
    """Options that change neither records nor permissions are accepted, and told in the log."""

    @pytest.mark.parametrize(
        ("option", "why"),
        [
            ("kafka.max.poll.records", "see maxOffsetsPerTrigger"),
            ("kafka.ssl.enabled.protocols", "Python chooses"),
            ("kafka.sasl.kerberos.kinit.cmd", "the mechanism is not Kerberos"),
            ("kafka.metric.reporters", "the client is not Java"),
            ("kafka.linger.ms", "a task sends batches when they are full"),
            ("kafka.bootstrap.resolve.timeout.ms", "a name is resolved at each attempt"),
            ("kafka.buffer.memory.allocation.strategy", "memory is taken when records come"),
            ("kafka.partitioner.rack.aware", "rows without keys fill one batch"),
            ("kafka.sasl.oauthbearer.allow.unverified.issuer", "a token is requested when"),
            ("kafka.sasl.oauthbearer.allow.unverified.audience", "a token is requested when"),
            ("kafka.acks", "it is for writes"),
            ("kafka.session.timeout.ms", "it is for members of a group"),
            ("groupIdPrefix", "a read without group.id belongs to no group"),
        ],
    )
    def test_options_without_effect_on_a_read_have_a_reason(self, option, why):
        for found in (batch(**{option: "1"}), stream(**{option: "1"})):
            ((name, told),) = found.without_effect
            assert name == option
            assert told.startswith(why)

    def test_options_without_effect_on_a_write_are_named(self):
        found = write(kafka__isolation__level="read_committed", kafka__linger__ms="5")
        assert dict(found.without_effect).keys() == {"kafka.isolation.level", "kafka.linger.ms"}

    def test_trigger_options_have_no_effect_on_a_batch(self):
        assert dict(batch(maxOffsetsPerTrigger="5").without_effect) == {
            "maxOffsetsPerTrigger": "a batch read has no triggers"
        }
        assert stream(maxOffsetsPerTrigger="5").without_effect == ()

    def test_member_options_have_an_effect_on_a_member(self):
        assert stream(group__id="etl", kafka__session__timeout__ms="9000").without_effect == ()

    def test_ignored_options_are_logged_once_and_in_one_line(self, caplog):
        """`load()` asks for the schema, and the action for a reader."""
        source = KohortDataSource(with_dots({"kafka.linger.ms": "5", "kafka.retries": "1"}))
        columns = source.schema()
        pickle.loads(pickle.dumps(source)).reader(columns)
        (told,) = caplog.messages
        assert told.startswith("ignored options: kafka.linger.ms (a task sends")
        assert "kafka.retries (" in told


WRONG = {
    "kafka__bootstrap__servers": None, "kafka__auto__offset__reset": "latest",
    "minPartition": "3", "failOnDataLoss": "yes", "maxRecordsPerPartition": "many",
    "kafka__request__timeout__ms": "soon", "kafka__retry__backoff__ms": "-1",
    "kafka__security__protocol": "SASL_SSL", "kafka__ssl__truststore__location": "nowhere.jks",
    "subscribe": None, "startingOffsets": "newest",
}  # fmt: skip
TOLD = (
    "kafka.bootstrap.servers", "kafka.auto.offset.reset", "minpartition", "failOnDataLoss",
    "maxRecordsPerPartition", "kafka.request.timeout.ms", "kafka.retry.backoff.ms",
    "kafka.sasl.mechanism", "kafka.ssl.truststore.location", "subscribe", "startingOffsets",
)  # fmt: skip


def test_a_table_of_a_catalog_comes_without_its_options():
    with pytest.raises(ConfigError, match=r"FROM t WITH .*CREATE TEMPORARY VIEW"):
        KohortDataSource({}).reader(KohortDataSource(with_dots({})).schema())


class TestAllAtOnce:
    """One error has everything that is wrong, already at `load()`."""

    def test_one_error_has_all_wrong_options_of_a_read(self):
        with pytest.raises(RefusedOptionsError) as raised:
            KohortDataSource(with_dots(WRONG)).schema()
        assert str(raised.value).startswith("11 options are refused:\n  option")
        for name in TOLD:
            assert any(name in text for text in raised.value.texts), name

    def test_one_error_has_all_wrong_options_of_a_write(self):
        with pytest.raises(RefusedOptionsError) as raised:
            write(topic=" ", kafka__acks="2", kafka__batch__size="-1", topik="a")
        assert len(raised.value.texts) == 4

    def test_load_accepts_options_of_either_kind_of_read(self):
        for one in ({"endingOffsets": "latest"}, {"group__id": "etl"}):
            KohortDataSource(with_dots(one)).schema()

    def test_load_tells_of_the_kind_with_fewer_refusals(self):
        with pytest.raises(RefusedOptionsError) as raised:
            KohortDataSource(with_dots({"group__id": "etl", "failOnDataLoss": "yes"})).schema()
        assert len(raised.value.texts) == 1

    def test_a_member_is_looked_at_by_load(self):
        with pytest.raises(ConfigError, match=r"strategy: .*best"):
            KohortDataSource(
                with_dots({"group__id": "a", "kafka__partition__assignment__strategy": "best"})
            ).schema()


class TestGroup:
    def test_a_query_without_a_group_id_has_no_group(self):
        assert (stream().group_id, stream().group_mode) == (None, GroupMode.NONE)

    def test_a_query_with_a_group_id_is_a_member(self):
        assert (stream(group__id="etl").group_id, stream(group__id="etl").group_mode) == (
            "etl",
            GroupMode.MEMBER,
        )

    def test_the_name_that_sparks_source_takes_makes_no_member(self):
        assert batch(kafka__group__id="etl").group_mode is GroupMode.NONE
        assert stream(kafka__group__id="etl").group_mode is GroupMode.NONE
        found = stream(kafka__group__id="etl", groupMode="member")
        assert (found.group_id, found.group_mode) == ("etl", GroupMode.MEMBER)

    def test_group_mode_overrides_the_default_of_a_group(self):
        assert stream(group__id="etl", groupMode="reporting").group_mode is GroupMode.REPORTING
        assert stream(group__id="etl", groupMode="none").group_mode is GroupMode.NONE

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (
                {"group__id": "a", "kafka__group__id": "b"},
                "options group.id and kafka.group.id contradict each other",
            ),
            (
                {"groupMode": "member"},
                "option groupMode is member: it needs the group's name in group.id",
            ),
            (
                {"groupMode": "leader"},
                "option groupMode is 'leader'; it is one of none, reporting, member",
            ),
            (
                {"group__id": ""},
                "option groupMode is member: it needs the group's name in group.id",
            ),
            (
                {"subscribe": None, "assign": '{"a": [0]}', "group__id": "a"},
                "option assign: a member is assigned",
            ),
            (
                {"group__id": "a", "groupProtocol": "new"},
                "option groupProtocol is 'new'; it is one of classic, consumer, auto",
            ),
            (
                {"group__id": "a", "groupMode": "reporting", "groupProtocol": "consumer"},
                "option groupProtocol: only members have one",
            ),
        ],
    )
    def test_contradicting_group_options_are_refused(self, options, says):
        with pytest.raises(ConfigError, match=says):
            stream(**options)


class TestMembers:
    def test_a_member_gets_its_timeouts_instance_id_and_assignors(self):
        found = group_options(
            stream(
                group__id="etl", kafka__session__timeout__ms="9000",
                kafka__max__poll__interval__ms="45000",
                kafka__group__instance__id="one",
                kafka__partition__assignment__strategy="org.apache.kafka.clients.consumer.RangeAssignor,sticky",
            )
        )  # fmt: skip
        assert (found["session_timeout_ms"], found["rebalance_timeout_ms"]) == (9_000, 45_000)
        assert (found["instance_id"], found["assignors"]) == ("one", ("range", "sticky"))

    def test_a_member_gets_its_group_protocol(self):
        assert group_options(stream(group__id="etl"))["protocol"] == "classic"
        found = group_options(
            stream(
                group__id="etl", groupProtocol="consumer", kafka__group__remote__assignor="range"
            )
        )  # fmt: skip
        assert (found["protocol"], found["remote_assignor"]) == ("consumer", "range")

    def test_a_rebalance_waits_for_a_micro_batch(self):
        assert group_options(stream(group__id="etl"))["rebalance_timeout_ms"] == 300_000

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"kafka__session__timeout__ms": "0"}, "option kafka.session.timeout.ms is '0'"),
            (
                {"kafka__heartbeat__interval__ms": "99000"},
                "kafka.heartbeat.interval.ms: 99000 must be less than kafka",
            ),
            (
                {"kafka__partition__assignment__strategy": "best"},
                "kafka.partition.assignment.strategy: .*best",
            ),
        ],
    )
    def test_invalid_settings_of_a_member_are_refused(self, options, says):
        with pytest.raises(ConfigError, match=says):
            validate_group(stream(group__id="etl", **options))


SASL = {"kafka__security__protocol": "SASL_SSL", "kafka__sasl__mechanism": "PLAIN"}
TLS = {"kafka__security__protocol": "SSL", "kafka__ssl__truststore__type": "PEM"}


OAUTH = {
    "kafka__security__protocol": "SASL_PLAINTEXT",
    "kafka__sasl__mechanism": "OAUTHBEARER",
    "kafka__sasl__oauthbearer__token__endpoint__url": "http://127.0.0.1:1/token",
}


class TestSecurity:
    def test_a_jaas_line(self):
        line = (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" '
            'password="a\\"b";'
        )
        found = batch(
            kafka__security__protocol="SASL_PLAINTEXT",
            kafka__sasl__mechanism="SCRAM-SHA-512",
            kafka__sasl__jaas__config=line,
        ).client_config()
        assert (found.security.mechanism, found.security.username) == ("SCRAM-SHA-512", "ann")
        assert found.security.password == 'a"b'

    @pytest.mark.parametrize(
        ("given", "password"),
        [
            ('"it\'s"', "it's"),
            ("'a \"b\"; c'", 'a "b"; c'),
            ("'a\\'b'", "a'b"),
            ("bare-1", "bare-1"),
            ('""', ""),
        ],
    )
    def test_a_jaas_line_has_any_quotes_or_none(self, given, password):
        found = batch(
            kafka__security__protocol="SASL_PLAINTEXT",
            kafka__sasl__mechanism="PLAIN",
            kafka__sasl__jaas__config=f"PlainLoginModule required username=ann password={given};",
        ).client_config()
        assert (found.security.username, found.security.password) == ("ann", password)

    def test_a_truststore_may_be_a_pem_file(self, certificate):
        path = str(certificate[0])
        found = batch(
            kafka__security__protocol="SSL",
            kafka__ssl__truststore__location=path,
            kafka__ssl__truststore__type="PEM",
            kafka__ssl__endpoint__identification__algorithm="",
        ).client_config()
        assert (found.security.ssl_cafile, found.security.ssl_check_hostname) == (path, False)

    def test_pem_text_may_be_in_one_line(self, certificate):
        cert, key = (" ".join(path.read_text().split("\n")) for path in certificate)
        found = batch(
            kafka__security__protocol="SSL",
            kafka__ssl__truststore__certificates=cert,
            kafka__ssl__keystore__certificate__chain=cert,
            kafka__ssl__keystore__key=key,
        ).client_config()
        assert found.security.context().cert_store_stats()["x509"] == 1
        assert "PRIVATE KEY" not in repr(found)

    def test_client_credentials_are_read_from_the_jaas_config(self):
        line = (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'clientId="ann" clientSecret="s3cret" scope="all" extension_logicalCluster="lkc-1";'
        )
        found = batch(
            **OAUTH,
            kafka__sasl__jaas__config=line,
            kafka__sasl__login__callback__handler__class=(
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
        ).client_config()
        assert found.security.extensions == {"logicalCluster": "lkc-1"}
        assert isinstance(found.security.token, ClientCredentials)
        assert "s3cret" not in repr(found)

    def test_security_is_read_from_a_file_and_overridden_by_options(self, tmp_path):
        """Other properties in it are those of other programs."""
        file = tmp_path / "client.properties"
        file.write_text(
            "bootstrap.servers=other:1\nfetch.min.bytes=7\nsecurity.protocol=SASL_PLAINTEXT\n"
            "sasl.mechanism=PLAIN\nsasl.username=ann\nsasl.password=s3cret\n"
        )
        for found in (batch(security=file), write(security=file)):
            config = kafka_options.client_config(dict(found.kafka))
            assert config.security.password == "s3cret"
            assert "other" not in str(config.servers)
            assert "s3cret" not in repr(found)
        ben = batch(security=file, kafka__sasl__username="ben").client_config()
        assert ben.security.username == "ben"
        scram = {"kafka__sasl__mechanisms": "SCRAM-SHA-256"}
        assert batch(security=file, **scram).client_config().security.mechanism == "SCRAM-SHA-256"
        with pytest.raises(ConfigError, match=r"kafka\.sasl\.mechanisms and .* contradict"):
            batch(security=file, kafka__sasl__mechanism="PLAIN", **scram).client_config()

    def test_a_file_that_is_missing(self):
        with pytest.raises(ConfigError, match="option security: nowhere cannot be read"):
            batch(security="nowhere")

    def test_a_password_is_not_told(self):
        found = batch(**SASL, kafka__sasl__username="ann", kafka__sasl__password="s3cret")
        assert found.client_config().security.password == "s3cret"
        assert "s3cret" not in f"{found!r} {found.client_config()!r}"

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (
                {"kafka__security__protocol": "TLS"},
                "kafka.security.protocol .*: security protocol 'TLS'",
            ),
            ({"kafka__security__protocol": "SASL_SSL"}, "option kafka.sasl.mechanism is missing"),
            (
                SASL | {"kafka__sasl__mechanism": "GSSAPI"},
                "option kafka.sasl.mechanism is 'GSSAPI'; it is one of PLAIN",
            ),
            (
                SASL,
                "option kafka.sasl.username is missing; or give both in a line, "
                "kafka.sasl.jaas.config",
            ),
            (SASL | {"kafka__sasl__username": "ann"}, "option kafka.sasl.password is missing"),
            (
                SASL
                | {
                    "kafka__sasl__username": "ann",
                    "kafka__sasl__jaas__config": 'username="a" password="b"',
                },
                "kafka.sasl.jaas.config and kafka.sasl.username contradict",
            ),
            (
                {"kafka__sasl__jaas__config": "any"},
                "option kafka.sasl.jaas.config has no effect, as kafka.security.protocol "
                "is PLAINTEXT",
            ),
            (
                {"kafka__ssl__truststore__location": "a", "kafka__ssl__truststore__type": "PEM"},
                "option kafka.ssl.truststore.location has no effect, as "
                "kafka.security.protocol is PLAINTEXT",
            ),
            (
                TLS | {"kafka__ssl__ca__location": "a", "kafka__ssl__truststore__location": "b"},
                "kafka.ssl.ca.location and kafka.ssl.truststore.location contradict",
            ),
            (
                TLS | {"kafka__ssl__key__location": "a"},
                "kafka.ssl.key.location without kafka.ssl.keystore.location",
            ),
            (
                TLS | {"kafka__ssl__endpoint__identification__algorithm": "dns"},
                "option kafka.ssl.endpoint.identification.algorithm is 'dns'",
            ),
            (
                {"kafka__security__protocol": "SSL", "kafka__ssl__truststore__location": "a.jks"},
                "option kafka.ssl.truststore.location: a.jks cannot be read: No such file",
            ),
            (
                {"kafka__security__protocol": "SSL", "kafka__ssl__ca__location": "a.pem"},
                "option kafka.ssl.truststore.location: a.pem cannot be read: No such file",
            ),
            (
                TLS | {"kafka__ssl__truststore__type": "BKS", "kafka__ssl__ca__location": "a"},
                "option kafka.ssl.truststore.type is BKS; it is one of JKS, PKCS12, PEM",
            ),
            (
                TLS | {"kafka__ssl__keystore__key": "a"},
                "option kafka.ssl.keystore.certificate.chain is missing",
            ),
            (OAUTH, "option kafka.sasl.oauthbearer.client.credentials.client.id is missing"),
            (
                OAUTH | {"kafka__sasl__oauthbearer__token__endpoint__url": None},
                "option kafka.sasl.oauthbearer.token.endpoint.url is missing",
            ),
            (
                SASL | {"kafka__sasl__login__callback__handler__class": "mine.Handler"},
                "option kafka.sasl.login.callback.handler.class is a class of Java",
            ),
            (
                {
                    "kafka__security__protocol": "SASL_SSL",
                    "kafka__sasl__mechanism": "PLAIN",
                    "kafka__sasl__jaas__config": "Krb5LoginModule required;",
                },
                "option kafka.sasl.jaas.config has no username",
            ),
        ],
    )
    def test_missing_and_contradicting_security_options_are_refused(self, options, says):
        with pytest.raises(ConfigError, match=says):
            batch(**options)


def write(**more):
    return parse_write(with_dots({"subscribe": None, "topic": "orders"} | more))


EXACTLY_ONCE = {"delivery": "exactly_once", "kafka__transactional__id": "a"}


class TestWriting:
    def test_a_write_has_the_defaults_of_kafka(self):
        found = write()
        assert (found.topic, found.headers, found.batch_size, found.max_request_size) == (
            "orders", None, 262_144, 1_048_576,
        )  # fmt: skip
        assert dict(found.producing)["acks"] == "all"
        assert write(topic=None).topic is None

    def test_producer_options_of_a_write_are_parsed(self):
        found = write(
            kafka__acks="1", kafka__enable__idempotence="false", kafka__compression__type="ZSTD",
            kafka__batch__size="1000", kafka__buffer__memory="2000",
            kafka__max__request__size="3000",
            kafka__delivery__timeout__ms="4000", kafka__max__block__ms="5000",
            kafka__max__in__flight__requests__per__connection="6", includeHeaders="true",
        )  # fmt: skip
        assert dict(found.producing) == {
            "acks": "1", "enable_idempotence": False, "compression": "zstd", "batch_size": 1000,
            "buffer_memory": 2000,
            "max_request_size": 3000, "delivery_timeout_ms": 4000, "max_block_ms": 5000,
            "max_in_flight_requests_per_connection": 6,
        }  # fmt: skip
        assert (found.headers, found.batch_size, found.max_request_size) == (True, 1000, 3000)

    def test_an_exactly_once_write_has_a_transactional_id(self):
        found = write(**EXACTLY_ONCE, kafka__transaction__timeout__ms="7000")
        assert dict(found.producing)["transaction_timeout_ms"] == 7000
        assert dict(found.producing)["connections_per_broker"] == 2
        assert (found.transactional_id, found.batches_group) == ("a", "a-batches")
        assert write().transactional_id is None

    def test_plans_are_verified_unless_that_is_an_option(self):
        found = write(**EXACTLY_ONCE, checkpointLocation="/checkpoint")
        assert (found.verify_plan, found.checkpoint) == (True, "/checkpoint")
        assert not write(**EXACTLY_ONCE, verifyPlan="false").verify_plan
        assert dict(write(verifyPlan="false").without_effect) == {
            "verifyPlan": "it is for delivery=exactly_once"
        }

    def test_a_transaction_timeout_without_a_transaction_is_told(self):
        found = write(kafka__transaction__timeout__ms="7000")
        assert dict(found.without_effect) == {
            "kafka.transaction.timeout.ms": "it is for delivery=exactly_once"
        }

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"topic": " "}, "option topic is empty"),
            ({"topik": "a"}, "option topik is not known; is it topic?"),
            ({"includeHeaders": "yes"}, "option includeHeaders is 'yes'"),
            ({"kafka__bootstrap__servers": None}, "option kafka.bootstrap.servers is missing"),
            ({"kafka__acks": "2"}, "option kafka.acks is '2'; it is one of all, -1, 0, 1"),
            (
                {"kafka__acks": "1", "kafka__enable__idempotence": "true"},
                "set kafka.enable.idempotence=False or acks",
            ),
            (
                {"kafka__compression__type": "lzma"},
                "option kafka.compression.type is 'lzma'; it is one of none, gzip",
            ),
            ({"kafka__batch__size": "-1"}, "option kafka.batch.size is '-1'"),
            ({"kafka__delivery__timeout__ms": "0"}, "kafka.delivery.timeout.ms is 0"),
            (
                {("kafka__max__in__flight__requests__per__connection"): "6"},
                "kafka.max.in.flight.requests.* from 1 to 5",
            ),
            ({"kafka__partitioner__class": "x"}, "write a column partition"),
            ({"delivery": "twice"}, "option delivery is 'twice'; it is one of at_least_once, ex"),
            ({"delivery": "exactly_once"}, "option kafka.transactional.id is missing"),
            (
                {"kafka__transactional__id": "a"},
                "option kafka.transactional.id is for delivery=exactly_once",
            ),
            (EXACTLY_ONCE | {"kafka__transactional__id": ""}, "transactional.id ''"),
            (EXACTLY_ONCE | {"kafka__acks": "1"}, "idempotent"),
            (
                EXACTLY_ONCE | {"kafka__transaction__timeout__ms": "x"},
                "option kafka.transaction.timeout.ms is 'x'",
            ),
            ({"kafka__transaction__two__phase__commit__enable": "true"}, "set delivery"),
            ({"kafka__key__serializer": "x"}, "string or binary columns"),
        ],
    )
    def test_invalid_options_of_a_write_are_refused(self, options, says):
        with pytest.raises(ConfigError, match=says):
            write(**options)
