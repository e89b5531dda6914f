"""Names of topics."""

import pytest

from kohort.errors import ErrorCode, KafkaError
from kohort.server.metadata import validate_creatable, validate_name


@pytest.mark.parametrize(
    "name", ["a", "a.b", "_x", "__consumer_offsets", "A-1_b.C", "x" * 249, "...", "-"]
)
def test_legal_topic_names_are_accepted(name: str) -> None:
    validate_creatable(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        (
            "a b",
            "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'",
        ),
        (
            "é",
            "'é' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        (
            "a/b",
            "'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'",
        ),
        (
            "a\n",
            "'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'",
        ),
    ],
)
def test_illegal_topic_names_are_refused_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_name(name)
    assert caught.value.code is ErrorCode.invalid_topic_exception
    assert caught.value.message == f"Topic name is invalid: {why}"


def test_the_metadata_log_is_no_topic() -> None:
    with pytest.raises(
        KafkaError, match=("Creation of internal topic __cluster_metadata is prohibited")
    ):
        validate_creatable("__cluster_metadata")
