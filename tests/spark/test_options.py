"""Options: each by its name, and what is wrong told by its name. No Spark is needed."""

import pickle

import pytest

from kohort.errors import ConfigError
from kohort.spark.options import Bound, GroupMode, Subscription, parse_read
from kohort.spark.positions import EARLIEST, LATEST
from kohort.types import TopicPartition

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
    def test_topics(self):
        assert batch(subscribe="a, b,a").subscription == Subscription(topics=("a", "b"))

    def test_a_pattern(self):
        assert batch(subscribe=None, subscribePattern="a.*").subscription == Subscription(pattern="a.*")

    def test_partitions(self):
        found = batch(subscribe=None, assign='{"b": [1, 0], "a": [2]}').subscription
        assert found.partitions == (TopicPartition("a", 2), TopicPartition("b", 0), TopicPartition("b", 1))

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"subscribe": None}, "one of the options assign, subscribe, subscribePattern .* none is given"),
            ({"subscribePattern": "a"}, "subscribe and subscribePattern contradict each other"),
            ({"subscribe": " , "}, "option subscribe names no topic"),
            ({"subscribe": None, "subscribePattern": "("}, "option subscribePattern is no regular expression"),
            ({"subscribe": None, "assign": '{"a": 1}'}, "option assign is not JSON such as"),
            ({"subscribe": None, "assign": '{"a": [-1]}'}, "option assign names no partition, or one below 0"),
            ({"subscribe": None, "assign": '{"a": [true]}'}, "option assign is not JSON"),
        ],
    )
    def test_what_is_refused(self, options, says):
        with pytest.raises(ConfigError, match=says):
            batch(**options)


class TestBounds:
    def test_defaults_are_those_of_sparks_source(self):
        assert batch().starting.everywhere == EARLIEST
        assert batch().ending.everywhere == LATEST
        assert stream().starting.everywhere == LATEST

    def test_offsets(self):
        found = batch(startingOffsets='{"orders": {"0": 23, "1": -2}}', endingOffsets='{"orders": {"0": -1, "1": 5}}')
        assert found.starting.at == {TopicPartition("orders", 0): 23, TopicPartition("orders", 1): EARLIEST}
        assert found.ending.at == {TopicPartition("orders", 0): LATEST, TopicPartition("orders", 1): 5}

    def test_timestamps(self):
        assert batch(startingTimestamp="1000").starting == Bound(option="startingTimestamp", timestamp=1000)
        found = batch(endingOffsetsByTimestamp='{"orders": {"0": 9}}').ending
        assert found == Bound(option="endingOffsetsByTimestamp", timestamps={TopicPartition("orders", 0): 9})

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"startingOffsets": "latest"}, "option startingOffsets is latest"),
            ({"startingOffsets": '{"orders": {"0": -1}}'}, "option startingOffsets is latest"),
            ({"endingOffsets": "earliest"}, "option endingOffsets is earliest"),
            ({"endingOffsets": '{"orders": {"0": -2}}'}, "option endingOffsets: -2 of orders-0 is out of bounds"),
            ({"startingOffsets": "newest"}, "option startingOffsets is not JSON"),
            ({"startingOffsets": '{"orders": {"0": 1.5}}'}, "option startingOffsets is not JSON"),
            ({"startingTimestamp": "noon"}, "option startingTimestamp is 'noon'"),
            (
                {"startingTimestamp": "1", "startingOffsets": "earliest"},
                "startingTimestamp and startingOffsets contradict",
            ),
            ({"startingOffsetsByTimestampStrategy": "later"}, "option startingOffsetsByTimestampStrategy is 'later'"),
        ],
    )
    def test_what_is_refused(self, options, says):
        with pytest.raises(ConfigError, match=says):
            batch(**options)

    def test_a_stream_has_no_end(self):
        with pytest.raises(ConfigError, match="option endingOffsets: a stream has no end"):
            stream(endingOffsets="latest")


class TestTheRest:
    def test_numbers_and_flags(self):
        found = stream(maxOffsetsPerTrigger="10", minPartitions="4", failOnDataLoss="FALSE", includeHeaders="true")
        assert (found.max_offsets_per_trigger, found.min_partitions) == (10, 4)
        assert (found.fail_on_data_loss, found.include_headers) == (False, True)
        assert stream().fail_on_data_loss

    def test_names_are_compared_without_regard_to_case(self):
        assert stream(MAXOFFSETSPERTRIGGER="10").max_offsets_per_trigger == 10

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"minPartition": "3"}, "option minpartition is not known; is it minPartitions"),
            ({"minPartitions": "0"}, "option minPartitions is '0'; it has to be a whole number from 1 on"),
            ({"failOnDataLoss": "yes"}, "option failOnDataLoss is 'yes'; it is one of true, false"),
            ({"groupIdPrefix": "x"}, "option groupidprefix has no counterpart here"),
            (
                {"maxOffsetsPerTrigger": "5"},
                "option maxOffsetsPerTrigger: a batch read belongs to no group and has no triggers",
            ),
            ({"group__id": "etl"}, "option group.id: a batch read belongs to no group and has no triggers"),
            ({"kafka__bootstrap__servers": None}, "option kafka.bootstrap.servers is missing"),
            ({"kafka__bootstrap__servers": "nowhere"}, "kafka.*: bootstrap server 'nowhere' is not HOST:PORT"),
            ({"kafka__auto__offset__reset": "latest"}, "option kafka.auto.offset.reset has no effect here"),
            ({"kafka__client__ids": "x"}, "option kafka.client.ids is not known; is it kafka.client.id"),
            ({"kafka__request__timeout__ms": "soon"}, "option kafka.request.timeout.ms is 'soon'"),
            ({"kafka__isolation__level": "serializable"}, "option kafka.isolation.level is 'serializable'"),
        ],
    )
    def test_what_is_refused(self, options, says):
        with pytest.raises(ConfigError, match=says):
            batch(**options)

    def test_read_committed(self):
        assert batch(kafka__isolation__level="read_committed").isolation == "read_committed"

    def test_they_travel_to_workers(self):
        found = stream(startingOffsets='{"orders": {"0": 23}}', group__id="etl")
        assert pickle.loads(pickle.dumps(found)) == found


class TestGroup:
    def test_without_a_name_there_is_none(self):
        assert (stream().group_id, stream().group_mode) == (None, GroupMode.NONE)

    def test_with_a_name_the_query_is_a_member(self):
        assert (stream(group__id="etl").group_id, stream(group__id="etl").group_mode) == ("etl", GroupMode.MEMBER)
        assert stream(kafka__group__id="etl").group_id == "etl"

    def test_or_what_is_said(self):
        assert stream(group__id="etl", groupMode="reporting").group_mode is GroupMode.REPORTING
        assert stream(group__id="etl", groupMode="none").group_mode is GroupMode.NONE

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"group__id": "a", "kafka__group__id": "b"}, "options group.id and kafka.group.id contradict each other"),
            ({"groupMode": "member"}, "option groupMode is member: it needs the group's name in group.id"),
            ({"groupMode": "leader"}, "option groupMode is 'leader'; it is one of none, reporting, member"),
            ({"subscribe": None, "assign": '{"a": [0]}', "group__id": "a"}, "option assign: a member is assigned"),
        ],
    )
    def test_what_is_refused(self, options, says):
        with pytest.raises(ConfigError, match=says):
            stream(**options)


class TestSecurity:
    def test_a_jaas_line(self):
        line = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="a\\"b";'
        found = batch(
            kafka__security__protocol="SASL_PLAINTEXT",
            kafka__sasl__mechanism="SCRAM-SHA-512",
            kafka__sasl__jaas__config=line,
        ).client_config()
        assert (found.security.mechanism, found.security.username) == ("SCRAM-SHA-512", "ann")
        assert found.security.password == 'a"b'

    def test_pem_files(self):
        found = batch(
            kafka__security__protocol="SSL",
            kafka__ssl__truststore__location="ca.pem",
            kafka__ssl__truststore__type="PEM",
            kafka__ssl__endpoint__identification__algorithm="",
        ).client_config()
        assert (found.security.ssl_cafile, found.security.ssl_check_hostname) == ("ca.pem", False)

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"kafka__security__protocol": "TLS"}, "kafka.security.protocol: security protocol 'TLS'"),
            ({"kafka__security__protocol": "SASL_SSL"}, "option kafka.sasl.mechanism is missing"),
            (
                {"kafka__security__protocol": "SSL", "kafka__ssl__truststore__location": "a.jks"},
                "option kafka.ssl.truststore.type is JKS: only PEM files can be read",
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
    def test_what_is_refused(self, options, says):
        with pytest.raises(ConfigError, match=says):
            batch(**options)
