"""The ten questions of examples/history, asked about recorded logs."""

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "history"


def test_the_notebook_has_the_cells_of_the_script() -> None:
    made = runpy.run_path(str(EXAMPLE / "notebook.py"))["notebook"]
    script = (EXAMPLE / "questions.py").read_text()
    assert (EXAMPLE / "questions.ipynb").read_text() == made(script)
    cells = json.loads(made(script))["cells"]
    code = "\n".join("".join(each["source"]) for each in cells if each["cell_type"] == "code")
    compile(code, "questions.ipynb", "exec")


@pytest.mark.clients
def test_the_questions_have_the_answers_that_clients_gave() -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'kohort[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17")
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "questions.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers = done.stdout.split("\n\n")
    assert len(answers) == 11, "ten tables"
    coverage, owner, committed, left, restarted, rebalances, reset, deleted, aborted, gaps, _ = (
        answers
    )
    assert all(end in coverage for end in ("885", "1784", "725"))
    assert "cooperative-franz-go-" in owner
    assert all(group in committed for group in ("cooperative", "eager", "stalled", "static"))
    reasons = [line.split("|")[-2].strip() for line in left.splitlines()[3:-1]]
    assert set(reasons) == {"left", "replaced", "vanished", "out of the poll loop"}
    assert "till-1" in restarted
    assert "40932" in rebalances
    assert "rewind" in reset
    assert all(cause in deleted for cause in ("group deleted", "offsets deleted", "expired"))
    assert "aborted" in aborted
    assert gaps.count("clicks") == 3
