"""Names that others chose, and the names of members."""

import pytest

from kohort.report.names import member_names, short_number, shown
from report.histories import member


def test_a_restarted_member_keeps_the_name_of_its_client():
    rows = [member("etl-1", 0, 10, client_id="etl"), member("etl-2", 10, client_id="etl")]
    assert member_names(rows) == {"etl-1": "etl", "etl-2": "etl"}


def test_members_of_one_client_id_are_told_apart_by_host():
    rows = [
        member("etl-1", client_id="etl", client_host="/10.0.0.1"),
        member("etl-2", client_id="etl", client_host="/10.0.0.2"),
    ]
    assert member_names(rows) == {"etl-1": "etl at 10.0.0.1", "etl-2": "etl at 10.0.0.2"}


def test_members_of_one_host_are_told_apart_by_member_id():
    rows = [member(f"etl-00000{n}", client_id="etl") for n in range(2)]
    assert set(member_names(rows).values()) == {"etl …000000", "etl …000001"}


def test_a_static_member_has_its_instance_id():
    rows = [member("a", instance_id="pod-1"), member("b", 5, instance_id="pod-1")]
    assert set(member_names(rows).values()) == {"pod-1"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("orders", "orders"),
        ("", "(empty)"),
        ("a\x1b[31m", r"a\x1b[31m"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u2028b", r"a\u2028b"),
        ("\ud800", r"\ud800"),
        ("a\uffffb\ue000", r"a\uffffb\ue000"),
        ("cafe\u0301", "cafe\u0301"),
        ("a" + "\u0301" * 5, "a" + "\u0301" * 3 + r"\u0301\u0301"),
        ("<script>", "<script>"),
    ],
)
def test_a_name_is_on_one_line_and_in_one_direction(name, text):
    assert shown(name) == text


def test_a_long_name_has_its_beginning_its_end_and_its_length():
    text = shown("a" * 32_000 + "end")
    assert text.startswith("aaaa")
    assert text.endswith("end (32,003 characters)")
    assert len(text) < 100


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (950, "950"), (999.9, "1 k"), (1_234, "1.23 k"), (31e6, "31 M"), (5e18, "5,000 P")],
)
def test_a_short_number_has_a_unit(value, text):
    assert short_number(value) == text
