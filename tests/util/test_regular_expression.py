"""Regular expressions that clients send, compared with the answers of a real Kafka 4.3.

`regular_expressions.jsonl` has for each expression the topics that Kafka wrote to its record of the
resolved expression, or null if its response to ConsumerGroupHeartbeat v1 was
INVALID_REGULAR_EXPRESSION.
"""

import json
from pathlib import Path

import pytest

from kohort.util.regular_expression import (
    MAX_BYTES,
    MAX_UNICODE_CLASSES,
    RegularExpression,
    RegularExpressionError,
)

RECORDED: list[tuple[str, list[str] | None]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "regular_expressions.jsonl").read_text().splitlines()
]
NAMES = sorted(name for expression, names in RECORDED if expression == ".*" for name in names or ())
ONLY_KAFKA = {
    "(a{1000}){2}",
    "(a{100}){11}",
    "((a{10}){10}){11}",
    "\\é",
    "(\\pL{100}){10}",
    "\\pL{1000}",
}
"""Taken by Kafka alone: nested counts, escapes beyond ASCII, and what needs too much memory."""
NEWER_SCRIPTS = {
    f"\\p{{{name}}}"
    for name in (
        "Chorasmian", "Kawi", "Cypro_Minoan", "Yezidi", "Adlam", "Dogra", "Elymaic", "Vithkuqi",
    )
}  # fmt: skip
"""Refused by Kafka alone."""


def is_refused(expression: str) -> bool:
    try:
        RegularExpression(expression)
    except RegularExpressionError:
        return True
    return False


def test_the_same_expressions_are_refused() -> None:
    differing = {
        expression
        for expression, names in RECORDED
        if is_refused(expression) is not (names is None)
    }
    assert differing == ONLY_KAFKA | NEWER_SCRIPTS


def test_the_same_names_match() -> None:
    for expression, names in RECORDED:
        if names is not None and expression not in ONLY_KAFKA:
            regex = RegularExpression(expression)
            assert [name for name in NAMES if regex.matches(name)] == sorted(names), expression


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("a" * MAX_BYTES, None),
        ("a" * (MAX_BYTES + 1), "longer than"),
        ("é" * MAX_BYTES, "longer than"),
        ("[\\pL]" * (MAX_UNICODE_CLASSES + 1), "Unicode classes"),
        ("\\pL{1000}", "too large"),
        ("[^a]{1000}" * 100, "too large"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_large_expressions_are_refused(expression: str, reason: str | None) -> None:
    if reason is None:
        RegularExpression(expression)
        return
    with pytest.raises(RegularExpressionError, match=reason):
        RegularExpression(expression)


def test_an_expression_that_re2_refuses_gets_the_error_of_re2() -> None:
    with pytest.raises(RegularExpressionError, match="invalid perl operator") as refused:
        RegularExpression("(?=é)")
    assert "b'" not in str(refused.value)


@pytest.mark.parametrize(
    "expression",
    [
        "\\Q(?<n>\\C\\E(?<n>a)",
        "[(?<n>](?<n>a)",
        "\\(?<n>a|(?<n>b)",
        "[]{999999999}]",
        "[[:alpha:]{999999999}]",
        "\\\\C",
        "\\Q\\C",
    ],
)
def test_quoted_characters_are_no_syntax(expression: str) -> None:
    RegularExpression(expression)


def test_a_match_takes_time_in_proportion_to_the_text() -> None:
    for expression in ("(a+)+b", "(a*)*(a*)*b", "((a?){900}b?)*c"):
        assert not RegularExpression(expression).matches("a" * 32_767)


@pytest.mark.parametrize(
    "expression", ["(?<n>a)(?P<n>b)", "a{1,999999999}", "a{999999999,}", "a\\C"]
)
def test_an_expression_that_only_re2_accepts_is_refused(expression: str) -> None:
    assert is_refused(expression)
