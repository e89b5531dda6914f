"""What is installed while the group is shown: how far it is, and how it ends."""

import os
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from kohort_demo import main
from kohort_demo.installation import Doing, Installation

PIP = """\
Collecting pyspark<5,>=4
  Downloading pyspark-4.3.0.tar.gz (455.9 MB)
\x1b[?25l     \x1b[90m━━╸━━━━━\x1b[0m \x1b[32m3.6/455.9 MB\x1b[0m 102.4 MB/s eta 0:00:01\r\
\x1b[2K     ━━━━━╸━━ \x1b[32m404.8/455.9 MB\x1b[0m 32.0 MB/s eta 0:00:02"""
UV = """\
⠸ Resolving dependencies...
⠙ pyspark==4.3.0
\r\x1b[2K⠴ Preparing packages... (4/7)  pyarrow   ------------- 21.23 MiB/52.47 MiB"""


def command(program: str) -> list[str]:
    return [sys.executable, "-c", f"import os, sys, time; out = sys.stdout.write\n{program}"]


@pytest.fixture
def console() -> Console:
    return Console(width=120, record=True, force_terminal=False)


@pytest.mark.parametrize(
    ("output", "doing"),
    [
        (PIP, "Downloading pyspark-4.3.0.tar.gz (455.9 MB), 404.8/455.9 MB"),
        (UV, "Preparing packages... (4/7) pyarrow 21.23 MiB/52.47 MiB"),
        (
            "Building wheel for pyspark (pyproject.toml) ... -\b \b\\\b",
            "Building wheel for pyspark",
        ),
        ("", ""),
    ],
)
def test_the_progress_of_pip_and_uv_is_shown_in_words(
    output: str, doing: str, tmp_path: Path, console: Console
) -> None:
    with Installation(command(f"out({output!r})"), tmp_path / "log") as installation:
        assert installation.failure(console) is None
    assert str(installation.doing).removesuffix(" (pyproject.toml)") == doing


def test_an_amount_belongs_to_what_was_named_before() -> None:
    named = Doing().after("  Downloading a-1.whl (2.0 MB)")
    assert str(named.after("   ━━ 1.0/2.0 MB 3.5 MB/s eta 0:00:04")) == (
        "Downloading a-1.whl (2.0 MB), 1.0/2.0 MB"
    )
    assert str(named.after("Collecting b")) == "Collecting b"
    assert named.after("  \x1b") != Doing()


def test_the_first_error_of_an_installation_is_its_failure(
    tmp_path: Path, console: Console
) -> None:
    program = "out('Collecting x\\nERROR: No matching x\\nmake: *** Error 1\\n'); sys.exit(2)"
    with Installation(command(program), tmp_path / "log") as installation:
        assert installation.failure(console) == f"No matching x; see {tmp_path / 'log'}"
    assert (tmp_path / "log").read_text().splitlines()[0] == "Collecting x"


def test_a_command_that_says_nothing_of_its_error(tmp_path: Path, console: Console) -> None:
    with Installation(command("sys.exit(3)"), tmp_path / "log") as installation:
        assert installation.failure(console) == f"exit code 3; see {tmp_path / 'log'}"


def test_new_packages_can_be_imported(
    tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ImportError):
        import installed_meanwhile  # type: ignore[import-not-found]
    program = f"open({str(tmp_path / 'installed_meanwhile.py')!r}, 'w').close()"
    with Installation(command(program), tmp_path / "log") as installation:
        assert installation.failure(console) is None
    import installed_meanwhile  # noqa: F401


def test_an_interrupted_installation_ends_all_its_processes(
    tmp_path: Path, console: Console
) -> None:
    """Ctrl-C in the middle of the show: no pip goes on by itself."""
    inner = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
    with Installation(
        command(f"import subprocess; subprocess.run({inner!r})"), tmp_path / "log"
    ) as installation:
        group = installation._process.pid
        while str(installation.doing) != "up":
            assert installation._process.poll() is None
    with pytest.raises(ProcessLookupError):
        look_for(group)


def look_for(group: int) -> None:
    """Raises ProcessLookupError when there is no such group of processes any more."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        os.killpg(group, 0)  # finds processes also until the system has read their ends
        time.sleep(0.05)


class Server:
    """None of what happens here reaches it."""


def test_without_spark_the_show_ends_well(
    tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "console", console)
    offline = command("out('error: Failed to fetch: no network\\n'); sys.exit(1)")
    with Installation(offline, tmp_path / "log") as installation:
        main.with_spark(Server(), {}, tmp_path, installation)  # type: ignore[arg-type]
    told = console.export_text()
    assert "Spark could not be installed: Failed to fetch: no network; see " in told
    assert "`make run` tries again" in told


@pytest.mark.parametrize(
    ("home", "found", "is_there"),
    [("", None, False), ("/opt/java", None, True), ("", "/usr/bin/java", True)],
)
def test_spark_is_not_fetched_without_java(
    monkeypatch: pytest.MonkeyPatch, home: str, found: str | None, is_there: bool
) -> None:
    monkeypatch.setenv("JAVA_HOME", home)
    monkeypatch.setattr("shutil.which", lambda _name: found)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert main.has_java() is is_there
