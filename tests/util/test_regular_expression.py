"""Regular expressions that clients send, compared with the answers of a real Kafka 4.3.

`regular_expressions.jsonl` has for each expression the topics that Kafka wrote to its record of the
resolved expression, or null if its response to ConsumerGroupHeartbeat v1 was
INVALID_REGULAR_EXPRESSION.
"""

import json
import tracemalloc
import unicodedata
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.util.regular_expression import (
    MAX_BYTES,
    RegularExpression,
    RegularExpressionError,
)
from kohort.util.regular_expression.automaton import MAX_MEMORY
from turns import BOUND_MS, cpu_ms

RECORDED: list[tuple[str, list[str] | None]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "regular_expressions.jsonl").read_text().splitlines()
]
NAMES = sorted(name for expression, names in RECORDED if expression == ".*" for name in names or ())


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
    assert differing == set()


def test_the_same_names_match() -> None:
    for expression, names in RECORDED:
        if names is not None:
            regex = RegularExpression(expression)
            assert [name for name in NAMES if regex.matches(name)] == sorted(names), expression


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("(?=é)", "invalid perl operator, or invalid group: (?=é)"),
        ("(a)\\1", "invalid escape sequence: \\1"),
        ("a**", "invalid nested repetition operator: **"),
        ("|*", "missing argument to repetition operator: *"),
        ("a{1001}", "invalid repeat count: {1001}"),
        ("a{2,1}", "invalid repeat count: {2,1}"),
        ("a{" + "9" * 8_000 + "}", "invalid repeat count: {999"),
        ("(a", "missing closing ): (a"),
        ("a)", "unexpected ): )"),
        ("[a", "missing closing ]: [a"),
        ("[z-a]", "invalid character class range: z-a"),
        ("[[:foo:]]", "invalid character class range: [:foo:]"),
        ("\\p{greek}", "invalid character class range: \\p{greek}"),
        ("(?<n>a)(?P<n>b)", "duplicate capture group name: n"),
        ("\\", "trailing backslash"),
        ("é" * (MAX_BYTES // 2 + 1), f"longer than {MAX_BYTES} bytes"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_the_error_says_what_is_wrong_in_the_expression(expression: str, reason: str) -> None:
    with pytest.raises(RegularExpressionError) as refused:
        RegularExpression(expression)
    assert reason in str(refused.value)


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


@pytest.mark.parametrize("category", ["L", "Lu", "Nd", "N", "C", "Zs", "P"])
def test_a_general_category_has_the_characters_of_unicode(category: str) -> None:
    inside, outside = (RegularExpression(f"\\{letter}{{{category}}}") for letter in "pP")
    for char in "aZ5٣_- \u2028é中\u0301€\x00\ue000":
        is_in = unicodedata.category(char).startswith(category)
        assert (inside.matches(char), outside.matches(char)) == (is_in, not is_in), char


# --- compared with RE2 ---

ATOMS = [
    *"aab.^$-K1_ é\n\u212aſ", "[a-c]", "[^a]", "[^a-cK]", "(?:a|b)", "(a)", "()", "[]a]", "[a-]",
    "\\d", "\\D", "\\w", "\\W", "\\s", "\\b", "\\B", "\\A", "\\z", "\\pL", "\\PL", "\\p{Lu}",
    "[[:alpha:]]", "[[:^word:]-]", "[\\d-a]", "[^\\W]", "[\\P{Lu}k]", "\\x41", "\\x{e9}", "\\101",
    "\\Qa.b\\E", "\\.", "\\e", "(?i)", "(?m)", "(?s)", "(?-i)", "(?i:k", "(?<n>", "(?P<m>",
    "(", "(", "(?:", ")", ")", ")", "|", "|", "*", "+", "?", "*?", "{0}", "{2}",
    "{0,2}", "{1,}", "{,2}",
]  # fmt: skip
expressions = st.lists(st.sampled_from(ATOMS), min_size=1, max_size=10).map("".join)
texts = st.text("aabcK1_k-.\n éÉsſ\u212aA", max_size=7)


def re2_compiled(expression: str) -> Any:
    """RE2's expression, None if it refuses it."""
    re2 = pytest.importorskip("re2", reason="google-re2 is not installed")
    options = re2.Options()
    options.never_capture, options.log_errors = True, False
    try:
        return re2.compile(expression, options)
    except re2.error:
        return None


@settings(max_examples=examples(500))
@given(expressions, st.lists(texts, max_size=8))
@example("(a|b)*a(a|b){3}", ["abab", "bbbb"])
@example("(?:\\ba?\\b)*", ["", "a", "aa"])
@example("(?m)(?:^a$\n?)+", ["a\na", "aa"])
def test_re2_accepts_the_same_expressions_and_matches_the_same_texts(
    expression: str, names: list[str]
) -> None:
    expected = re2_compiled(expression)
    if expected is not None and expression.count("(?<n>") < 2 and expression.count("(?P<m>") < 2:
        regex = RegularExpression(expression)
        for name in names:
            assert regex.matches(name) is (expected.fullmatch(name) is not None), name
    else:
        assert is_refused(expression)


@settings(max_examples=examples(500))
@given(st.text(max_size=20), texts)
def test_any_text_is_an_expression_or_refused(expression: str, name: str) -> None:
    if not is_refused(expression):
        assert RegularExpression(expression).matches(name) in (True, False)


# --- bounds ---

LARGE = {
    "literal": "a" * MAX_BYTES,
    "names": "|".join(f"team-{number}.orders.{number * 7919}" for number in range(340)),
    "groups": "(a)" * 2_730,
    "nested groups": "(a" * 2_000 + ")" * 2_000,
    "classes": "".join(f"[{chr(300 + at)}-{chr(302 + at)}a]" for at in range(1_000)),
    "one class": "[" + "".join(chr(300 + 2 * at) for at in range(2_700)) + "]",
    "categories": "(?i)\\pL" * 1_600,
    "optional": "a?" * 4_096,
    "counts": "a{1000}" * 1_100,
    "nested counts": "((((a?b{3}){10}){10}){10}){10}",
    "counts of counts": "(a" * 680 + "{999}){0}" * 680,
    "anchors": "^\\b" * 2_000,
    "words": "(?:\\b(?:a|b)?\\b)*" * 300,
    "stars": "(?:a*b*)*" * 800,
    "many states": "(a|b)*a(a|b){1000}",
    "many sets": "(?:a|b|ab)*a(?:a|b|ab){1000}",
    "dots": "(.*b?){900}",
}


@pytest.mark.parametrize("expression", LARGE.values(), ids=LARGE)
def test_no_expression_and_no_name_holds_the_event_loop(expression: str) -> None:
    taken = [cpu_ms(lambda: is_refused(expression))]
    if not is_refused(expression):
        regex = RegularExpression(expression)
        for name in ("ab" * 120, "a" * 249, "".join(map(chr, range(33, 126))) * 2):
            steps = regex.steps(name)
            taken += [cpu_ms(partial(next, steps, None)) for _ in range(3)]
    print(f"{max(taken):.0f} ms")
    assert max(taken) < BOUND_MS


def test_the_sets_of_positions_that_were_met_take_bounded_memory() -> None:
    regex = RegularExpression("(a|b)*a(a|b){200}")
    tracemalloc.start()
    try:
        for number in range(1, 16):
            regex.matches(f"{number * 7919**20:b}".translate({48: "a", 49: "b"}))
        assert tracemalloc.get_traced_memory()[0] < 2 * MAX_MEMORY
    finally:
        tracemalloc.stop()


def test_a_match_takes_time_in_proportion_to_the_text() -> None:
    for expression in ("(a+)+b", "(a*)*(a*)*b", "((a?){900}b?)*c"):
        assert not RegularExpression(expression).matches("a" * 32_767)
