"""What Spark's Python processes load, and what their collector looks at between two tasks."""

import gc
import importlib
import subprocess
import sys
import weakref
import zipfile
import zipimport
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.spark import workers

READS = """
import sys
from kohort.spark import KohortDataSource
from kohort.columnar import decode
from kohort.protocol import batches
from kohort.protocol.records import Record
record = Record(b"key", b"value", (("header", b"1"),), 1)
decode(batches.build([record], base_offset=0), topic="t", partition=0, include_headers=True)
print(*sys.modules)
"""


def test_a_task_loads_no_library_that_it_does_not_need() -> None:
    """Each of them takes longer than a small micro-batch: pyarrow would import pandas, kio Hypothesis."""
    done = subprocess.run([sys.executable, "-c", READS], capture_output=True, text=True, check=True)
    assert {"numba", "pyspark"} <= set(done.stdout.split())
    assert not {"pandas", "hypothesis", "kohort.server"} & set(done.stdout.split())


@pytest.fixture
def _settled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(workers, "_settled", None)
    workers.settle()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_settled")
def test_what_is_there_when_a_worker_settles_is_out_of_the_collectors_reach_once() -> None:
    frozen = gc.get_freeze_count()
    assert frozen > 10_000
    later: list[list[int]] = [[] for _ in range(1000)]
    workers.settle()
    assert gc.get_freeze_count() <= frozen
    assert gc.is_tracked(later)


@pytest.mark.usefixtures("_settled")
def test_garbage_of_later_is_collected_as_before() -> None:
    class Node:
        other: "Node"

    one, two = Node(), Node()
    one.other, two.other = two, one
    alive = weakref.ref(one)
    del one, two
    gc.collect()
    assert alive() is None


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in an archive of Spark's, and a module in one of the application, both imported from."""
    for name, module in (("spark/lib.zip", "of_spark/__init__.py"), ("application.zip", "of_application.py")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(module, "")
            archive.writestr("of_spark/later.py", "found = True")
        monkeypatch.syspath_prepend(str(path))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    importlib.import_module("of_spark")
    importlib.import_module("of_application")
    return tmp_path


def test_finders_of_sparks_archives_are_forgotten_and_those_of_the_application_are_not(archives: Path) -> None:
    def found() -> set[str]:
        cached = sys.path_importer_cache.values()
        names = {each.archive for each in cached if isinstance(each, zipimport.zipimporter)}
        return {name for name in names if name.startswith(str(archives))}

    assert found() == {str(archives / "spark/lib.zip"), str(archives / "application.zip")}
    workers.forget_finders()
    assert found() == {str(archives / "application.zip")}
    importlib.invalidate_caches()
    assert importlib.import_module("of_spark.later").found
