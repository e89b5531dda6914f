"""Distribution of the tests over processes."""

import ast
from pathlib import Path

import pytest

from spreading import WITHOUT_SESSION, unit

ROOT = Path(__file__).parents[1]
SPARK = sorted(path.relative_to(ROOT) for path in Path(__file__).parent.glob("spark/test_*.py"))


@pytest.mark.parametrize("file", [each for each in SPARK if WITHOUT_SESSION.fullmatch(str(each))])
def test_a_file_without_a_session_asks_for_none(file: Path) -> None:
    """Each process that runs some of it would start a Spark."""
    tree = ast.parse((ROOT / file).read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert not [each.name for each in functions if "session" in {a.arg for a in each.args.args}]


def test_one_process_has_all_tests_of_the_session() -> None:
    assert unit("tests/spark/test_stream.py::test_a[kohort]") == "spark"
    assert unit("tests/spark/test_batch.py::test_b[kafka]") == "spark"


def test_one_process_has_all_requests_to_apache_kafka() -> None:
    on_kafka = {
        unit(f"tests/spark/test_{each}.py::test_a[kafka]") for each in ("writing", "ranges")
    }
    assert len(on_kafka) == 1
    assert unit("tests/spark/test_writing.py::test_a[kohort]") == "tests/spark/test_writing.py"
