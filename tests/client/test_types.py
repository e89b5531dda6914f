"""What mypy and pyright, both strict, find in programs that use the client."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kohort.client

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs.py"
WRONG = {
    number
    for number, line in enumerate(PROGRAMS.read_text(encoding="utf-8").splitlines(), 1)
    if line.endswith("# wrong")
}


def test_every_public_name_is_there() -> None:
    assert all(getattr(kohort.client, name) is not None for name in kohort.client.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        kohort.client.Nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_mypy_finds_what_is_wrong_and_nothing_else() -> None:
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(PROGRAMS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert {int(line.split(":")[1]) for line in errors} == WRONG, done.stdout + done.stderr


def test_pyright_finds_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    pyright = shutil.which("basedpyright", path=Path(sys.executable).parent)
    if pyright is None:
        pytest.skip("basedpyright is not installed: pip install basedpyright")
    settings = tmp_path / "pyrightconfig.json"
    found = {"include": [str(PROGRAMS)], "typeCheckingMode": "strict"}
    settings.write_text(json.dumps(found | {"extraPaths": [str(ROOT / "src")]}))
    command = [pyright, "-p", str(settings), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)["generalDiagnostics"]
    lines = {each["range"]["start"]["line"] + 1 for each in told if each["severity"] == "error"}
    assert lines == WRONG, done.stdout
