"""The virtual environment that `make` makes, by a Python that only notes how it is called."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TARGET = ".venv/.installed-demo-group"
INSIDE = "#!/bin/sh\nexit 0\n"
MAKER = f"""#!{sys.executable}
import signal, sys
from pathlib import Path
home = Path(sys.argv[-1], "bin")
home.mkdir(parents=True, exist_ok=True)
for name in ("python", "activate"):
    (home / name).write_text({INSIDE!r})
    (home / name).chmod(0o755)
Path("made").write_text(str(signal.getsignal(signal.SIGINT) is signal.SIG_IGN))
"""


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "Makefile", tmp_path)
    needs = tmp_path / "examples/demo/requirements.txt"
    needs.parent.mkdir(parents=True)
    for each in (tmp_path / "pyproject.toml", needs):
        each.touch()
    script(tmp_path / "maker", MAKER)
    return tmp_path


def make(place: Path) -> bool:
    """Whether a virtual environment was made."""
    made = place / "made"
    made.unlink(missing_ok=True)
    command = ["make", "--silent", "UV=", f"PYTHON={place / 'maker'}", TARGET]
    subprocess.run(command, cwd=place, check=True, capture_output=True, timeout=60)
    return made.exists()


pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not on the PATH")


def test_a_virtual_environment_is_made_once_and_ctrl_c_waits_for_it(place: Path) -> None:
    assert make(place)
    assert (place / "made").read_text() == "True"
    (place / TARGET).unlink()
    assert not make(place)


def test_one_whose_making_was_interrupted_is_completed(place: Path) -> None:
    script(place / ".venv/bin/python", INSIDE)
    assert make(place)
