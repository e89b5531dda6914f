"""Tables on a terminal and elsewhere, and the same as CSV and JSON."""

import io
import json

import pytest

from kohort.cli.output import Table, show

TABLE = Table(
    ("GROUP", "COORDINATOR (ID)", "#MEMBERS"), [("[red]orders[/]", "a:1 (0)", 12), ("b", None, 0)]
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(output: str, to: io.StringIO | None = None) -> str:
    out = io.StringIO() if to is None else to
    show(output, TABLE, [{"group": "é", "members": None}], to=out)
    return out.getvalue()


def test_plain_columns_where_there_is_no_terminal() -> None:
    assert shown("table") == (
        "GROUP           COORDINATOR (ID)  #MEMBERS\n"
        "[red]orders[/]  a:1 (0)           12\n"
        "b               -                 0\n"
    )


def test_a_drawn_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    drawn = shown("table", Terminal())
    assert "\x1b[1m" in drawn  # the header is bold
    assert "[red]orders[/]" in drawn  # a name is a name, whatever its owner chose
    assert [line.split()[-1] for line in drawn.splitlines()[1:]] == ["12", "0"]
    assert "\x1b" not in shown("csv", Terminal())


def test_states_and_lag_have_colours_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    table = Table(("STATE", "LAG"), [("Stable", 0), ("Empty", 7)])
    out = Terminal()
    show("table", table, [], to=out)
    green, yellow = "\x1b[32m", "\x1b[33m"
    stable, empty = out.getvalue().splitlines()[1:]
    assert (stable.count(green), stable.count(yellow)) == (2, 0)
    assert (empty.count(green), empty.count(yellow)) == (0, 2)
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    show("table", table, [], to=plain)
    assert green not in plain.getvalue()
    assert yellow not in plain.getvalue()


def test_a_line_of_a_table_is_never_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    member = "my-billing-service-29231e-002b-475e-acea-e8542b13026d"
    columns = ("GROUP", "LOG-END-OFFSET", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
    rows = [
        ("billing", 5, member, "/127.0.0.1", "my-billing-service", 1),
        ("b", 10, "", "-", "", 0),
    ]
    out = Terminal()
    show("table", Table(columns, rows), [], to=out)
    lines = out.getvalue().splitlines()
    assert [line.split() for line in lines] == [
        list(columns),
        ["billing", "5", member, "/127.0.0.1", "my-billing-service", "1"],
        ["b", "10", "-", "-", "-", "0"],
    ]
    assert len({len(line) for line in lines}) == 1  # numbers end where their header ends


def test_no_padding_follows_the_last_cell_that_a_terminal_would_wrap() -> None:
    out = Terminal()
    show("table", Table(("GROUP", "WHY"), [("a", "x" * 100), ("b", "y")]), [], to=out)
    assert out.getvalue().splitlines()[2].endswith("y")


def test_csv_has_names_that_programs_like_and_empty_cells() -> None:
    assert shown("csv").splitlines() == [
        "group,coordinator_id,members",
        "[red]orders[/],a:1 (0),12",
        "b,,0",
    ]


def test_json_is_for_programs() -> None:
    assert json.loads(shown("json")) == [{"group": "é", "members": None}]
    assert "é" in shown("json")
