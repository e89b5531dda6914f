"""Validation of quotas: the errors of Apache Kafka 4.4, by its texts."""

import math

import pytest

from kohort.errors import ErrorCode, KafkaError
from kohort.quotas import QuotaFilter, altered_quotas, quota_entity
from kohort.quotas.entities import FilterComponent

ALICE = quota_entity([("user", "alice")])
ADDRESS = quota_entity([("ip", "127.0.0.1")])


def test_the_order_of_types_does_not_matter():
    assert quota_entity([("user", "a"), ("client-id", "c")]) == (("client-id", "c"), ("user", "a"))


def test_quotas_are_set_changed_and_removed():
    first = altered_quotas(ALICE, {}, [("producer_byte_rate", 5.0), ("request_percentage", 0.5)])
    assert first == {"producer_byte_rate": 5.0, "request_percentage": 0.5}
    assert altered_quotas(ALICE, first, [("producer_byte_rate", None), ("unknown", None)]) == {
        "request_percentage": 0.5
    }
    assert altered_quotas(ADDRESS, {}, [("connection_creation_rate", 7.0)]) == {
        "connection_creation_rate": 7.0
    }


@pytest.mark.parametrize(
    ("parts", "key", "value", "message"),
    [
        ([], "producer_byte_rate", 1.0, "Invalid empty client quota entity"),
        ([("user", "")], "producer_byte_rate", 1.0, "Empty user not supported"),
        ([("tenant", "x")], "producer_byte_rate", 1.0, "Unhandled client quota entity type"),
        ([("user", "a"), ("ip", "::1")], "producer_byte_rate", 1.0, "cannot be combined"),
        ([("ip", "no such host")], "connection_creation_rate", 1.0, "is not a valid IP address"),
        ([("ip", "::1")], "producer_byte_rate", 1.0, "Invalid configuration key"),
        ([("user", "a")], "connection_creation_rate", 1.0, "Invalid configuration key"),
        ([("user", "a")], "producer_byte_rate", 0.0, "must be greater than 0"),
        ([("user", "a")], "producer_byte_rate", -1.0, "must be greater than 0"),
        ([("user", "a")], "request_percentage", math.nan, "must be a finite number"),
        ([("user", "a")], "request_percentage", math.inf, "must be a finite number"),
        ([("user", "a")], "producer_byte_rate", 1.5, "cannot be a fractional value"),
        ([("user", "a")], "consumer_byte_rate", 1e19, "is too large for a LONG"),
        ([("user", "a")], "consumer_byte_rate", -math.inf, "must be a finite number"),
        ([("ip", None)], "connection_creation_rate", 5e9, "is too large for an INT"),
    ],
)
def test_invalid_quotas_are_refused(parts, key, value, message):
    with pytest.raises(KafkaError, match=message) as refused:
        altered_quotas(quota_entity(parts), {}, [(key, value)])
    assert refused.value.code == ErrorCode.invalid_request


EXACT, DEFAULT, ANY = range(3)


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, {"alice", "alice c", "default", "default c", "c"}),
        ([], True, set()),
        ([("user", ANY, None)], False, {"alice", "alice c", "default", "default c"}),
        ([("user", ANY, None)], True, {"alice", "default"}),
        ([("user", EXACT, "alice")], False, {"alice", "alice c"}),
        ([("user", DEFAULT, None)], True, {"default"}),
        ([("user", EXACT, "alice"), ("client-id", ANY, None)], True, {"alice c"}),
        ([("user", EXACT, "ALICE")], False, set()),
    ],
)
def test_filters_select_quota_entities(components, strict, found):
    entities = {
        "alice": ALICE,
        "alice c": quota_entity([("user", "alice"), ("client-id", "c")]),
        "default": quota_entity([("user", None)]),
        "default c": quota_entity([("user", None), ("client-id", "c")]),
        "c": quota_entity([("client-id", "c")]),
    }
    wanted = QuotaFilter({each[0]: FilterComponent(*each) for each in components}, strict)
    assert {name for name, entity in entities.items() if wanted.matches(entity)} == found
