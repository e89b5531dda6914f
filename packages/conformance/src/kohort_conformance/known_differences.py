"""Intended differences from Apache Kafka: the field, Kohort's value, and the reason.

Such a response is counted as argued, not as a difference; any other value in the same place is a
difference. docs/differences.md has the reasons at length.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kohort_conformance.comparing import Difference
from kohort_conformance.plain import Plain


@dataclass(frozen=True)
class KnownDifference:
    """A field of one scenario, the value argued for it, and the argument.

    Scenario and field are shell patterns.
    """

    scenario: str
    field: str
    got: Plain
    why: str


PENDING_STATIC: Final = (
    "Kafka fails with an unknown server error when a pending member id comes with an "
    "instance id; the id is simply "
    "not one that may do so"
)
NOBODY_TO_WAIT_FOR: Final = (
    "a member that is refused for want of room is removed, and everybody else has "
    "joined: Kafka waits for the whole "
    "rebalance timeout all the same"
)

NULL_TAG: Final = (
    "a tagged field that is null is left out by everybody who writes one; the library "
    "that reads requests knows no "
    "null there"
)
NOTHING_DROPPED: Final = (
    "of two batches for one partition in one request Kafka drops the first and says "
    "nothing; Kohort appends and "
    "responds to both"
)
STALE_EPOCH: Final = (
    "a producer that was fenced must not end the transaction of its successor; Kafka aborts that "
    "before it refuses the request"
)
NO_PRODUCER: Final = (
    "a transactional batch without a producer is in no transaction; Kafka stores it as if it were "
    "committed"
)
BEFORE_THE_START: Final = (
    "the last stable offset is not before the log start offset; Kafka says the base offset of the "
    "batch that the log start offset is in"
)

BLANK_ID: Final = (
    "a member with a blank id could send no further heartbeat, as that is refused; Kohort makes an "
    "id, as for an empty one"
)

NO_STREAMS: Final = "Kohort has no groups of the streams protocol"

UNPARSED: Final = (
    "nothing that comes before the end of authentication is parsed but what belongs to it; Kafka "
    "parses the request, and names what it is about, before it closes the connection"
)
ONE_TOKEN: Final = (
    "after a refused token a client can only end the authentication (RFC 7628); Kafka takes any "
    "number of tokens on one connection"
)
LONG_TOKEN: Final = "a token has at most 65,536 characters, so that no token takes long to judge"
INVENTED_SALT: Final = (
    "a user that does not exist gets a salt as others do, and fails at the final message; Kafka "
    "tells by the first one who exists"
)
SIGNED_EXTENSION: Final = (
    "extensions of the final message are signed (RFC 5802); Kafka signs without them, and refuses "
    "the right proof"
)

KNOWN_DIFFERENCES: Final = (
    KnownDifference(
        "consumer_admin.configs_of_the_broker", "[[]12].value", "classic,consumer", NO_STREAMS
    ),
    KnownDifference("consumer_checks.blank_member_id", "member_id", "<member 2>", BLANK_ID),
    KnownDifference("consumer_checks.blank_member_id", "member_id", "<member 3>", BLANK_ID),
    KnownDifference(
        "static_members.pending_id_with_instance_id",
        "error_code",
        "UNKNOWN_MEMBER_ID (25)",
        PENDING_STATIC,
    ),
    KnownDifference(
        "static_members.pending_id_with_instance_id", "member_id", "<member 1>", PENDING_STATIC
    ),
    KnownDifference(
        "configured.late_member_finds_no_room", "value", "sooner than 2.5 s", NOBODY_TO_WAIT_FOR
    ),
    KnownDifference("connections.known_tag_of_null", "outcome", "connection closed", NULL_TAG),
    KnownDifference(
        "produce.same_partition_twice",
        "responses[[]0].partition_responses.length",
        2,
        NOTHING_DROPPED,
    ),
    KnownDifference("produce.same_partition_twice", "value", 2, NOTHING_DROPPED),
    KnownDifference(
        "transactional_ids.stale_epoch_while_a_transaction_is_open",
        "error_code",
        "NONE (0)",
        STALE_EPOCH,
    ),
    KnownDifference(
        "transaction_produce.without_a_producer",
        "responses[[]0].partition_responses[[]0].error_code",
        "INVALID_PRODUCER_ID_MAPPING (49)",
        NO_PRODUCER,
    ),
    KnownDifference(
        "transaction_produce.without_a_producer",
        "responses[[]0].partition_responses[[]0].*offset",
        -1,
        NO_PRODUCER,
    ),
    KnownDifference(
        "isolation.records_are_deleted_within",
        "topics[[]0].partitions[[]0].offset",
        1,
        BEFORE_THE_START,
    ),
    KnownDifference(
        "isolation.records_are_deleted_within",
        "responses[[]0].partitions[[]0].last_stable_offset",
        1,
        BEFORE_THE_START,
    ),
    KnownDifference("sasl_between.*", "*.length", 0, UNPARSED),
    *(
        KnownDifference(scenario, field, got, why)
        for scenario, why in (
            ("sasl_bearer.good_token_after_a_refused_one", ONE_TOKEN),
            ("sasl_bearer.huge_token", LONG_TOKEN),
        )
        for field, got in (
            ("error_code", "SASL_AUTHENTICATION_FAILED (58)"),
            ("error_message", "<text>"),
            ("session_lifetime", 0),
        )
    ),
    *(
        KnownDifference(scenario, field, got, why)
        for scenario, auth_bytes, why in (
            (
                "sasl_scram.first_message_of_an_unknown_user",
                "r=<both nonces>,s=<another salt>,i=4096",
                INVENTED_SALT,
            ),
            (
                "sasl_scram.extension_of_the_final_message",
                "v=<signature>",
                SIGNED_EXTENSION,
            ),
        )
        for field, got in (
            ("error_code", "NONE (0)"),
            ("error_message", ""),
            ("auth_bytes", auth_bytes),
        )
    ),
)


def reason_for(difference: Difference) -> str | None:
    """Why this difference is right, or None when nobody argues for it."""
    for one in KNOWN_DIFFERENCES:
        same_place = fnmatch.fnmatchcase(difference.scenario, one.scenario) and fnmatch.fnmatchcase(
            difference.field, one.field
        )
        if same_place and one.got == difference.got:
            return one.why
    return None


def all_known(differences: Iterable[Difference]) -> bool:
    """Whether every one of them is argued."""
    return all(reason_for(one) is not None for one in differences)
