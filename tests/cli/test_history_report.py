"""`kohort history report` on the history of a log that Apache Kafka wrote."""

import re

import pytest

from history.folded import whole
from kohort.cli.app import run
from kohort.errors import ConfigError


@pytest.fixture(scope="module")
def group(recording):
    """The one with the most generations."""
    rows = [row["group"] for row in whole(recording.name).generations]
    return max(sorted(set(rows)), key=rows.count)


def report(capsys, *arguments):
    code = run(["history", "report", *map(str, arguments)])
    return code, capsys.readouterr()


def test_a_page_of_all_groups_has_each_of_them(capsys, out, recording, tmp_path):
    page = tmp_path / "groups.html"
    code, printed = report(capsys, out, "--all", "--out", page)
    assert (code, printed.out) == (0, "")
    assert re.fullmatch(rf"kohort: {page}: [\d,]+ bytes\n", printed.err)
    html = page.read_text()
    names = {row["group"] for row in whole(recording.name).generations}
    assert names
    assert all(f"<bdi>{name}</bdi>" in html for name in names)
    assert [file.name for file in tmp_path.iterdir()] == ["groups.html"]


def test_the_page_is_the_same_for_any_number_of_processes(capsys, out):
    pages = set()
    for count in (1, 2):
        code, printed = report(capsys, out, "--all", "--out", "-", "--processes", count)
        assert code == 0
        pages.add(re.sub("made [^<]*? by", "", printed.out))
    assert len(pages) == 1


def test_a_page_of_a_group_has_its_generations(capsys, out, recording, group):
    code, printed = report(capsys, out, group, "--out", "-")
    assert (code, printed.err) == (0, "")
    for row in whole(recording.name).generations:
        if row["group"] == group:
            assert f"<td>classic {row['generation']}</td>" in printed.out


def test_the_default_file_is_in_this_directory(capsys, out, group, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert report(capsys, out, group)[0] == 0
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("of", ["GROUP", "--all"])
def test_a_picture_alone_writes_no_page(capsys, out, group, tmp_path, monkeypatch, of):
    monkeypatch.chdir(tmp_path)
    picture = tmp_path / "picture.png"
    code, printed = report(capsys, out, group if of == "GROUP" else of, "--png", picture)
    if code == 2 and "fonts" in printed.err:
        pytest.skip(printed.err)
    assert code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [file.name for file in tmp_path.iterdir()] == ["picture.png"]


def test_times_choose_what_is_shown(capsys, out, recording, group):
    rows = [row for row in whole(recording.name).generations if row["group"] == group]
    rows.sort(key=lambda row: row["log_offset"])
    middle = rows[len(rows) // 2]["time"]
    _, printed = report(capsys, out, group, "--out", "-", "--until", middle.isoformat())
    number = rows[len(rows) // 2]["generation"]
    assert f"<td>classic {number}</td>" in printed.out
    assert f"<td>classic {rows[-1]['generation']}</td>" not in printed.out


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], 2, "name one GROUP, or give --all"),
        (["billing", "--all"], 2, "name one GROUP, or give --all"),
        (["--all", "--processes", "0"], 2, "--processes 0: is not a number from 1 on"),
        (["--all", "--since", "noon"], 2, "--since noon: is not a time"),
        (["--all", "--until", "2026-01-31T10:42"], 2, "--until 2026-01-31T10:42: has no zone"),
        (
            ["--all", "--since", "2026-01-31T10:42Z", "--until", "2026-01-31T10:41Z"], 2,
            "is not before --until",
        ),
        (["no-such-group"], 1, "group no-such-group has no record in"),
        (["--all", "--out", "NOWHERE/page.html"], 1, "page.html: No such file or directory"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named(capsys, out, tmp_path, arguments, code, text):
    words = [word.replace("NOWHERE", str(tmp_path / "nowhere")) for word in arguments]
    result, printed = report(capsys, out, *words)
    assert (result, text in printed.err) == (code, True), printed.err


def test_a_near_group_is_offered(capsys, out, group):
    code, printed = report(capsys, out, f"{group}x")
    assert code == 1
    assert f"did you mean {group}?" in printed.err


def test_a_directory_of_something_else_is_refused(capsys, tmp_path):
    code, printed = report(capsys, tmp_path / "nowhere", "--all")
    assert code == 2
    assert "is not the directory of a history" in printed.err


def test_an_incomplete_history_is_reported_and_said(capsys, compacted, tmp_path):
    page = tmp_path / "page.html"
    code, printed = report(capsys, compacted, "--all", "--out", page)
    assert code in (0, 3)
    assert ("incomplete: records were missing" in printed.err) == (code == 3)
    assert ("is not known: compaction" in page.read_text()) == (code == 3)


def test_a_machine_without_fonts_gets_an_error_and_no_file(
    capsys, out, group, tmp_path, monkeypatch
):
    def refused(_):
        raise ConfigError("a picture needs fonts")

    monkeypatch.setattr("kohort.report.png.png", refused)
    code, printed = report(capsys, out, group, "--png", tmp_path / "picture.png")
    assert (code, "a picture needs fonts" in printed.err) == (2, True)
    assert not any(tmp_path.iterdir())
