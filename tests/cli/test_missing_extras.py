"""Commands without the packages of any extra: each works, or names the extra that it needs."""

import subprocess
import sys
from pathlib import Path

import pytest

from kohort.cli.app import COMMANDS

BLOCKED = (
    "asyncpg", "confluent_kafka", "cryptography", "fastavro", "jwt", "jinja2", "kohort_conformance",
    "llvmlite", "numpy", "opentelemetry", "pandas", "py4j", "pyarrow", "pyspark",
    "resvg_py",
)  # fmt: skip
PROGRAM = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
from kohort.cli import main
main()
"""
NOWHERE = "127.0.0.1:1"
DATABASE = "postgresql://kohort@127.0.0.1:1/kohort"
NEED_EXTRAS = (
    ("spark", "spark", "orders", "-b", NOWHERE, "--to", "table"),
    ("certs", "certs", "dev", "tls"),
    ("report", "history", "report", "history", "--all"),
    ("conformance", "conformance", NOWHERE),
    ("conformance", "conformance", "--list"),
    ("postgres", "serve", "--storage", DATABASE, "--listen", "127.0.0.1:0"),
    ("postgres", "storage", "check", "--storage", DATABASE),
    ("registry", "consume", "-b", NOWHERE, "-t", "t", "-s", "avro", "-r", "http://127.0.0.1:1"),
    (
        "pkcs12", "consume", "-b", NOWHERE, "-t", "t", "-X", "security.protocol=SSL",
        "-X", "ssl.keystore.location=store.p12", "-X", "ssl.keystore.password=secret",
    ),
)  # fmt: skip


def run(place: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_without_extras(command: str, tmp_path: Path) -> None:
    done = run(tmp_path, command, "--help")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("needed", NEED_EXTRAS, ids=lambda words: "-".join(words[:3]))
def test_a_command_names_the_extra_that_it_needs(needed: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "store.p12").write_bytes(b"0\x82\x01\x00\x02\x01\x03")
    extra, *arguments = needed
    done = run(tmp_path, *arguments)
    assert done.returncode in (1, 2)
    assert f"pip install 'kohort[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr
