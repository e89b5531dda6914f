"""`.properties` files, by the rules of java.util.Properties and beside it."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kohort.client.properties import read_properties
from kohort.client.properties.java_properties import parse_properties
from kohort.errors import ConfigError

Load = Callable[[str], dict[str, str] | None]

PIECES = st.sampled_from(
    ["a", "b=", ":", " ", "\t", "\f", "\n", "\r", "\\", "\\\n  ", "#", "!", '"', "ü", "\u2028",
     "\\u00fc", "\\ud83d", "\\ude00", "\\u12", "\\t", "\\z", "\\:", "\\=", "\x0b", "\x1c"]
)  # fmt: skip
"""What is special in such a file, or in Python's idea of lines."""


@pytest.mark.parametrize(
    ("text", "loaded"),
    [
        ("a=b", {"a": "b"}),
        ("  a : b ", {"a": "b "}),
        ("a b=c", {"a": "b=c"}),
        ("a", {"a": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("# a=b \\\n! c=d\ne=f", {"e": "f"}),
        ("a=b,\\\n    c,\\\r\n\td", {"a": "b,c,d"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n#c", {"a": "b#c"}),
        (r"a\:\=\ b=C:\\d\e", {"a:= b": "C:\\de"}),
        (r"a=\u00fc\t\ud83d\ude00", {"a": "ü\t\U0001f600"}),
        ("a=b\u2028c\x0bd", {"a": "b\u2028c\x0bd"}),
    ],
)
def test_rules_of_java(text: str, loaded: dict[str, str]) -> None:
    assert parse_properties(text) == loaded


@pytest.mark.parametrize("value", [r"s3cret\u12", r"s3cret\u00g0", r"s3cret\ud83d"])
def test_an_escape_without_its_digits_is_refused_without_the_value(value: str) -> None:
    with pytest.raises(ConfigError, match=r"property a.b has a \\u without") as raised:
        parse_properties(f"a.b={value}")
    assert "s3cret" not in str(raised.value)


def test_values_of_a_file_are_trimmed_as_by_kafka(tmp_path: Path) -> None:
    file = tmp_path / "a.properties"
    file.write_text("a=\\u0020b c\\t \n")
    assert read_properties(file) == {"a": "b c"}


@pytest.fixture(scope="module")
def java() -> Iterator[Load]:
    """What java.util.Properties loads of a text; None if it refuses it."""
    if shutil.which("java") is None:
        pytest.skip("no java")
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx64m")
    command = ["java", *quick, str(Path(__file__).with_name("LoadedProperties.java"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        told, asked = process.stdout, process.stdin

        def load(text: str) -> dict[str, str] | None:
            asked.write(text.encode("utf-16-be").hex() + "\n")
            line = told.readline().strip()
            if line == "!":
                return None
            pairs = (pair.split(":") for pair in line.split())
            return {
                name: value
                for name, value in ([_text(part) for part in pair] for pair in pairs)
                if name
            }

        yield load


def _text(digits: str) -> str:
    return bytes.fromhex(digits).decode("utf-16-be")


@pytest.mark.interop
@given(text=st.lists(PIECES, max_size=20).map("".join))
@example(text="\\\n#a=b\nc=d")
@example(text="a=\\")
def test_files_are_read_as_by_java(java: Load, text: str) -> None:
    loaded = java(text)
    try:
        ours = parse_properties(text)
    except ConfigError:
        # Half a character is refused too: Java takes it, and cannot send it.
        assert loaded is None or "\\ud" in text
    else:
        assert {name: value for name, value in ours.items() if name} == loaded


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("a=1\n", encoding="utf-8-sig")
    assert read_properties(file) == {"a": "1"}
