"""Names that clients choose reach no terminal as control or format characters."""

import ast
import logging
import subprocess
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import kohort
import kohort.cli
from cli.running import Run, runner
from kohort.errors import KohortError
from kohort.server.logging.formats import JsonFormatter, TextFormatter
from kohort.testing.server_process import ServerProcess
from kohort.util.printable import PrintableFormatter, printable

ROOT = Path(kohort.__file__).parent
HOSTILE = "a\x1b[31m\x9b2J\u202e\u2066\u200f\u2028\u00ad\r\nforged\tb\x7f"
SHOWN = r"a\x1b[31m\x9b2J\u202e\u2066\u200f\u2028\xad\r\nforged\tb\x7f"
INDENTED = "a\n  forged"
"""As an error of several problems has them."""

COMMANDS: Sequence[tuple[str, ...]] = (
    ("cluster",),
    ("groups", "list"),
    ("groups", "list", "--state", "--type"),
    ("groups", "list", "--output", "csv"),
    ("groups", "describe", HOSTILE),
    ("groups", "describe", HOSTILE, "--members", "--verbose"),
    ("groups", "describe", HOSTILE, "--state"),
    ("groups", "describe", "--all-groups"),
    ("groups", "describe", f"{HOSTILE}2"),
    ("groups", "watch", HOSTILE, "--count", "1"),
    ("groups", "watch", f"{HOSTILE}2", "--count", "1"),
    ("groups", "rebalances", HOSTILE),
    ("groups", "rebalances", f"{HOSTILE}2"),
    ("groups", "delete", HOSTILE),
    ("groups", "delete", f"{HOSTILE}2"),
    ("groups", "delete-offsets", HOSTILE, "--topic", "orders"),
    ("groups", "delete-offsets", HOSTILE, "--topic", HOSTILE),
    ("groups", "reset", HOSTILE, "--all-topics", "--to-earliest"),
    ("groups", "reset", HOSTILE, "--topic", HOSTILE, "--to-earliest"),
    ("groups", "reset", f"{HOSTILE}2", "--all-topics", "--to-earliest"),
    ("groups", "reset", "new", "--all-topics", "--from-group", HOSTILE),
    ("groups", "reset", "new", "--all-topics", "--from-group", f"{HOSTILE}2"),
    ("groups", "reset", HOSTILE, "--all-topics", "--to-latest", "--execute", "--no-plan"),
    ("groups", "copy", HOSTILE, f"{HOSTILE}3"),
    ("groups", "restore", HOSTILE, "--history", HOSTILE, "--to", "2026-01-31T10:42Z"),
    ("history", "export", f"{HOSTILE}2", "--out", "no-such-file.json"),
    ("groups", "plan", HOSTILE, "--join", "1"),
    ("groups", "plan", HOSTILE, "--leave", f"{HOSTILE}2"),
    ("topics", "list"),
    ("topics", "describe"),
    ("topics", "describe", HOSTILE),
    ("topics", "create", HOSTILE),
    ("topics", "alter", HOSTILE, "--partitions", "3"),
    ("topics", "delete", HOSTILE),
    ("configs", "describe", "topic", HOSTILE),
    ("configs", "describe", "group", HOSTILE),
    ("configs", "describe", "client", HOSTILE),
    ("configs", "describe", "--entity-type", "clients"),
    ("configs", "alter", "topic", "orders", "--add-config", f"{HOSTILE}=1"),
    ("configs", "alter", "client", HOSTILE, "--add-config", "producer_byte_rate=1"),
    ("users", "list"),
    ("users", "remove", HOSTILE),
    ("acls", "list"),
    ("acls", "list", "--topic", HOSTILE),
    ("transactions", "list"),
    ("transactions", "describe", HOSTILE),
    ("transactions", "describe", f"{HOSTILE}2"),
    ("transactions", "describe-producers", "--topic", "orders", "--partition", "0"),
    ("transactions", "find-hanging", "--topic", HOSTILE),
    ("consume", "-L"),
    ("consume", "-L", "-t", HOSTILE),
    ("consume", "-Q", "-t", f"{HOSTILE}:0:0"),
    ("consume", "-e", HOSTILE),
    (HOSTILE,),
    ("groups", HOSTILE),
    ("groups", "list", f"--{HOSTILE}"),
    (INDENTED,),
    ("groups", INDENTED),
    ("topics", "describe", INDENTED),
    ("groups", "reset", INDENTED, "--all-topics", "--to-earliest"),
    ("configs", "alter", "topic", "orders", "--add-config", f"{INDENTED}=1"),
)


def test_unprintable_characters_are_escaped() -> None:
    assert printable(HOSTILE) == SHOWN
    assert printable("\udcff\U000e0001\u2029\ufeff") == r"\udcff\U000e0001\u2029\ufeff"
    for text in ("", "orders", "größe ∑ 注文 \N{NO-BREAK SPACE}", "a\\x1b"):
        assert printable(text) == text


@pytest.mark.parametrize(
    "formatter",
    [PrintableFormatter("%(levelname)s %(message)s"), TextFormatter(traces=True), JsonFormatter()],
)
def test_log_lines_have_no_terminal_controls(formatter: logging.Formatter) -> None:
    try:
        raise KohortError(HOSTILE)
    except KohortError as error:
        failure = (type(error), error, error.__traceback__)
    record = logging.LogRecord("kohort", logging.ERROR, __file__, 1, "%s", (HOSTILE,), failure)
    record.kohort_fields = {"group": HOSTILE}
    text = formatter.format(record)
    assert acts(text) == []
    assert not any(line.startswith(("forged", "  forged\t")) for line in text.splitlines())
    assert len([line for line in text.splitlines() if not line.startswith("  ")]) == 1


def test_all_log_lines_are_formatted_so() -> None:
    plain = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "logging.Formatter"
    }
    assert plain == set()


def test_several_refused_options(run: Run) -> None:
    """Each has a line; a name in one of them begins none."""
    refused = run("topics", "list", "-X", f"{INDENTED}=1", "-X", f"b{INDENTED}=2")
    assert acts(refused.stderr) == []
    assert not any(line.lstrip().startswith("forged") for line in refused.stderr.splitlines())


def acts(text: str) -> list[str]:
    """The characters, except ends of lines, that a terminal acts upon."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return [each for each in text if each != "\n" and unicodedata.category(each) in kinds]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("server") / "server.log"
    with ServerProcess("--memory", "--dev", log=log) as server:
        yield server.address


@pytest.fixture
def run(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys, "-b", bootstrap)


@pytest.fixture
def member(bootstrap: str, run: Run) -> Iterator[None]:
    """A member of a group, and a user, a quota and a producer with hostile names."""
    run("topics", "create", "orders", "--if-not-exists")
    run("configs", "alter", "client", HOSTILE, "--add-config", "producer_byte_rate=1000000")
    names = (f"client.id={HOSTILE}", f"group.instance.id={HOSTILE}")
    options = [word for name in names for word in ("-X", name)]
    command = [sys.executable, "-m", "kohort", "consume", "-b", bootstrap, "-G", HOSTILE, *options]
    consumer = subprocess.Popen([*command, "-q", "orders"], stdout=subprocess.DEVNULL)
    try:
        described = ("groups", "describe", HOSTILE, "--members", "--output", "json")
        while consumer.poll() is None:
            found = run(*described)
            if found.exit_code == 0 and found.json and found.json[0]["members"]:
                break
        yield
    finally:
        consumer.kill()
        consumer.wait()


@pytest.mark.parametrize("is_terminal", [False, True])
def test_output_of_every_command_has_no_terminal_controls(
    run: Run, member: None, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "1000")
    if is_terminal:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = 0
    for words in COMMANDS:
        told = run(*words)
        text = told.output + told.stderr
        if "csv" in words and not is_terminal:
            assert HOSTILE in told.output
            continue
        assert acts(text) == [], words
        assert not any(line.lstrip().startswith("forged") for line in text.splitlines()), words
        shown += SHOWN in text
    assert shown > len(COMMANDS) / 2
    listed = run("groups", "list", "--output", "json")
    assert [each["group"] for each in listed.json] == [HOSTILE]


PRINTS_AS_IT_IS = {
    "completion.py": "a script",
    "config.py": "settings of this machine",
    "consume_queries.py": "JSON",
    "certs.py": "a directory of this machine",
    "watch.py": "what was printed while it was collected",
}


def test_all_output_goes_through_one_place() -> None:
    """Calls of print and of rich's `print` in `kohort.cli` take only text that was escaped."""
    for path in Path(kohort.cli.__file__).parent.glob("*.py"):
        if path.name in {"output.py", *PRINTS_AS_IT_IS}:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name == "print":
                text = ast.unparse(node)
                assert "printable" in text or is_own(node), f"{path.name}: {text}"


def is_own(call: ast.Call) -> bool:
    """Whether it prints text of this program: a constant, its help or version, a note, a line."""
    own = ("self.format_help()", "f'kohort {__version__}'", "notes[-1]")
    if not call.args:
        return True
    return isinstance(call.args[0], ast.Constant) or ast.unparse(call.args[0]) in own
