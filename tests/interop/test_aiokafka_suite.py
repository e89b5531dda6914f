"""aiokafka's own tests pass on an embedded Kafka: about four minutes.

They come with its repository only, which is cloned: `AIOKAFKA_REPOSITORY` names another place.
"""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.interop,
    pytest.mark.clients,
    pytest.mark.long,
    pytest.mark.timeout(900),
]

REPOSITORY = "https://github.com/aio-libs/aiokafka"
CONFTEST = Path(__file__).with_name("aiokafka_conftest.py")
MODULES = (
    *("admin", "client", "conn", "consumer", "coordinator", "fetcher", "pep492", "producer"),
    *("sender", "transactional_consumer", "transactional_producer"),
)
WITH_TLS = "ssl"
"""In the names of the two tests of these modules that need certificates."""


def cloned(directory: Path) -> Path:
    """Its repository at the version that is installed; skips if there is none."""
    pytest.importorskip("aiokafka")
    tag = f"v{importlib.metadata.version('aiokafka')}"
    source = os.environ.get("AIOKAFKA_REPOSITORY", REPOSITORY)
    command = ["git", "clone", "--quiet", "--depth=1", "--branch", tag, source, str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"aiokafka's tests could not be cloned: {done.stderr.strip()}")
    return directory / "tests"


def test_aiokafkas_own_tests_pass(tmp_path: Path) -> None:
    tests = cloned(tmp_path / "aiokafka")
    shutil.copyfile(CONFTEST, tests / "conftest.py")
    shutil.move(tests, tmp_path / "tests")  # beside aiokafka's sources they would be imported
    options = ("-p", "no:asyncio", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir=.")
    modules = [f"tests/test_{name}.py" for name in MODULES]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, "-k", f"not {WITH_TLS}", *modules],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-1_000:]
    summary = done.stdout.splitlines()[-1]
    assert int(summary.split()[0]) > 200, summary
