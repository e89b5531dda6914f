"""Groups that several processes read: the results of one process, and what ends with it."""

import multiprocessing
import os
import signal
from functools import partial
from pathlib import Path

import pytest

from history.built import build
from history.recorded import load
from kohort.errors import ConfigError, KohortError
from kohort.history_files.directory import HistoryDirectory
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.group_history import GroupHistories
from kohort.history_files.group_processes import GroupProcesses
from processes import is_alive
from waiting import wait_until


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    directory = tmp_path_factory.mktemp("history") / "out"
    build(load("classic"), directory)
    return directory


@pytest.fixture(scope="module")
def histories(out):
    return GroupHistories(HistoryDirectory(LocalFiles(out)))


@pytest.fixture(scope="module")
def parts(histories):
    return histories.parts()


def told(history):
    return history.group, history.members, history.commits.to_pylist(), os.getpid()


def killed(_):
    os.kill(os.getpid(), signal.SIGKILL)


def refused(history):
    raise ConfigError(f"{history.group} is refused")


def hanging(directory, _):
    (directory / str(os.getpid())).touch()
    signal.pause()


def test_several_processes_find_what_one_does_in_its_order(histories, parts):
    results = {}
    for count in (1, 2):
        with GroupProcesses(histories, parts, count) as running:
            results[count] = list(running.each(parts, told))
    assert len(results[1]) > 2
    assert [rows[:-1] for rows in results[2]] == [rows[:-1] for rows in results[1]]
    assert {rows[-1] for rows in results[1]} == {os.getpid()}
    assert os.getpid() not in {rows[-1] for rows in results[2]}


def test_few_rows_are_read_by_this_process(histories, parts):
    with GroupProcesses(histories, parts) as running:
        assert {rows[-1] for rows in running.each(parts, told)} == {os.getpid()}


def test_some_groups_of_the_parts_are_read(histories, parts):
    names = [group for part in parts for group in part.groups]
    some = [part.narrowed(names[1:3]) for part in parts]
    with GroupProcesses(histories, parts, 1) as running:
        found = [rows[0] for rows in running.each([each for each in some if each.groups], told)]
    assert found == names[1:3]


def test_a_killed_process_is_an_error_that_says_so(histories, parts):
    with (
        GroupProcesses(histories, parts, 2) as running,
        pytest.raises(KohortError, match="a process that read groups was killed"),
    ):
        list(running.each(parts, killed))


def test_an_error_of_a_group_is_raised(histories, parts):
    with (
        GroupProcesses(histories, parts, 2) as running,
        pytest.raises(ConfigError, match="is refused"),
    ):
        list(running.each(parts, refused))


def hang(out: Path, directory: Path) -> None:
    histories = GroupHistories(HistoryDirectory(LocalFiles(out)))
    parts = histories.parts()
    with GroupProcesses(histories, parts, 2) as running:
        list(running.each(parts, partial(hanging, directory)))


def test_processes_end_with_the_killed_one_that_started_them(out, tmp_path):
    parent = multiprocessing.get_context("spawn").Process(target=hang, args=(out, tmp_path))
    parent.start()
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2, "two processes that read")
    parent.kill()
    parent.join()
    numbers = [int(path.name) for path in tmp_path.iterdir()]
    wait_until(lambda: not any(map(is_alive, numbers)), "no process that reads")
