"""`kohort produce` and `kohort consume` beside kcat: the same input gives the same records, the
same records the same output, byte for byte.
"""

import json
import shutil
import subprocess
from itertools import count
from pathlib import Path

import pytest

from interop.targets import Target
from kohort.cli import app

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        shutil.which("kcat") is None,
        reason=("kcat is not on the PATH (Debian: apt-get install kcat)"),
    ),
]
NUMBERS = count(1)
DUMP = r"%o|%k|%K|%s|%S|%h\x1e"
AWKWARD = (
    b'plain\nkey=value\nk=\n=v\n==\n\n\x00\x01\x1f\x7f\\"/\xff\xc3\xa9=\xe2\x82\xac\nlast '
    b"without an end"
)


class Both:
    """Both tools on the same server."""

    def __init__(self, address: str, capfd: pytest.CaptureFixture[str], directory: Path) -> None:
        self._address = address
        self._capfd = capfd
        self._input = directory / "input"

    def topic(self) -> str:
        return f"kcat-{id(self):x}-{next(NUMBERS)}"

    def kcat(self, mode: str, topic: str, *words: str, data: bytes = b"") -> tuple[int, bytes]:
        command = ["kcat", mode, "-b", self._address, "-t", topic, *words]
        done = subprocess.run(command, input=data, capture_output=True, timeout=60, check=False)
        return done.returncode, done.stdout

    def ours(
        self, command: str, topic: str, *words: str, data: bytes | None = None
    ) -> tuple[int, bytes]:
        self._capfd.readouterr()
        more: tuple[str, ...] = ()
        if data is not None:
            self._input.write_bytes(data)
            more = ("-l", str(self._input))
        code = app.run([command, "-b", self._address, "-t", topic, *words, *more])
        return code, self._capfd.readouterr().out.encode("utf-8", "surrogateescape")

    def dump(self, topic: str) -> bytes:
        """What is in it, by a third view: kcat's."""
        return self.kcat("-C", topic, "-e", "-q", "-Z", "-f", DUMP)[1]


@pytest.fixture
def both(target: Target, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> Both:
    return Both(target.address, _Decoded(capfdbinary), tmp_path)  # type: ignore[arg-type]


class _Decoded:
    """Captured bytes as text that keeps every byte."""

    def __init__(self, captured: pytest.CaptureFixture[bytes]) -> None:
        self._captured = captured

    def readouterr(self) -> "_Decoded":
        self.out = self._captured.readouterr().out.decode("utf-8", "surrogateescape")
        return self


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("-K", "="),
        ("-K", "=", "-Z"),
        ("-K", "=", "-k", "fixed"),
        ("-K", "=", "-k", "fixed", "-Z"),
        ("-k", ""),
        ("-D", "e"),
        ("-D", r"\n\n"),
        ("-D", r"\x3d", "-K", r"\x6c\x61"),
        ("-H", "a=1", "-H", "b=", "-H", "c", "-H", "a=2=3"),
        ("-c", "3"),
        ("-z", "gzip"),
        ("-z", "zstd"),
        ("-p", "0"),
    ],
)
def test_the_same_input_gives_the_same_records(both: Both, words: tuple[str, ...]) -> None:
    theirs, mine = both.topic(), both.topic()
    assert both.kcat("-P", theirs, *words, data=AWKWARD)[0] == 0
    assert both.ours("produce", mine, *words, data=AWKWARD)[0] == 0
    assert both.dump(mine) == both.dump(theirs) != b""


def test_the_same_is_teed(both: Both) -> None:
    theirs = both.kcat("-P", both.topic(), "-T", "-K", "=", data=AWKWARD)
    assert both.ours("produce", both.topic(), "-T", "-K", "=", data=AWKWARD) == theirs


@pytest.mark.parametrize(
    "words",
    [
        ("-s", "key=>i", "-s", "value=>Hb"),
        ("-s", "key=i", "-K", ":"),
        ("-s", "value=b B h", "-E", "-D", ""),
        ("-s", "value=ccs"),
        ("-s", "b", "-f", r"%o %k %K %s %S\n"),
    ],
)
def test_pack_strings_print_the_same(both: Both, words: tuple[str, ...]) -> None:
    topic = both.topic()
    for line in (b"\0\0\0\7=\xff\1\2tail", b"\xff\xff\xff\xff=\1\2\xfe\4", b"\1\2\3\4="):
        assert both.kcat("-P", topic, "-p", "0", "-K", "=", "-D", r"\n\n", data=line)[0] == 0
    always = (*words, "-e", "-q")
    theirs = both.kcat("-C", topic, *always)
    assert both.ours("consume", topic, *always) == theirs
    assert theirs[0] == 0


@pytest.fixture(scope="module")
def filled(target: Target) -> str:
    """A topic with what is awkward in keys, values and headers; its records are a while apart in
    time.
    """
    topic = f"kcat-filled-{next(NUMBERS)}-{id(NUMBERS):x}"
    for words in (("-K", "=", "-Z"), ("-H", "a=1", "-H", "b=", "-H", "c"), ("-k", "x" * 300)):
        command = ["kcat", "-P", "-b", target.address, "-t", topic, "-p", "0", *words]
        subprocess.run(command, input=AWKWARD, check=True, timeout=60)
    return topic


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("-Z",),
        ("-K", ":"),
        ("-K", r"\t", "-Z", "-D", r"\n--\n"),
        ("-D", ""),
        ("-f", r"Topic %t [%p] at offset %o: key %k: %s\n"),
        ("-f", DUMP),
        ("-f", DUMP, "-Z"),
        ("-f", r"%R%s%T %%|\x41\065\101\q\\\t\r"),
        ("-f", r"%h\n"),
        ("-o", "3"),
        ("-o", "-2"),
        ("-o", "-1000"),
        ("-o", "1000"),
        ("-o", "end"),
        ("-o", "beginning", "-c", "4"),
        ("-o", "s@1"),
        ("-o", "s@99999999999999"),
        ("-p", "0", "-c", "1"),
    ],
)
def test_the_same_records_give_the_same_output(
    both: Both, filled: str, words: tuple[str, ...]
) -> None:
    theirs = both.kcat("-C", filled, "-e", "-q", *words)
    assert both.ours("consume", filled, "-e", "-q", *words) == theirs
    assert theirs[0] == 0


@pytest.mark.parametrize("words", [("-J",), ("-J", "-Z")])
def test_json_is_the_same_where_kcat_writes_json(
    both: Both, filled: str, words: tuple[str, ...]
) -> None:
    status, theirs = both.kcat("-C", filled, "-e", "-q", *words)
    assert status == 0
    status, ours = both.ours("consume", filled, "-e", "-q", *words)
    assert status == 0
    for line, expected in zip(ours.splitlines(), theirs.splitlines(), strict=True):
        try:
            expected.decode()
        except UnicodeDecodeError:
            assert any(name.endswith("_base64") for name in json.loads(line))
        else:
            assert line == expected


def test_wrong_options_and_errors_fail_in_both(both: Both, filled: str) -> None:
    """With other exit codes: ours tell wrong options (2) from what went wrong (1)."""
    for words, code in ((("-f", "%x"), 2), (("-p", "7"), 1)):
        assert both.kcat("-C", filled, "-e", *words) == (1, b"")
        assert both.ours("consume", filled, "-e", *words) == (code, b"")
