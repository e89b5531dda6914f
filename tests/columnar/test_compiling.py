"""How kernels come to their machine code."""

import ast
import io
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest

import kohort
from kohort.columnar import compiled, kernels, machine_code
from kohort.columnar.compiled import KERNELS, load, sources
from kohort.columnar.machine_code import addresses, engine_of
from kohort.columnar.payloads import as_bytes
from kohort.errors import KohortError

ALL = {name for names in KERNELS.values() for name in names}
ROOT = Path(__file__).parents[2]
REBUILD = (
    "the machine code is not that of the kernels: run `make kernels` on Linux with x86-64,"
    " and commit src/kohort/columnar/machine_code.*"
)


@pytest.fixture
def made():
    """What the package carries."""
    addresses()
    found = load(compiled.HERE)
    assert found is not None
    return found


@pytest.fixture
def forgetful():
    """Nothing is loaded, before and after."""
    addresses.cache_clear()
    yield
    addresses.cache_clear()


def test_the_package_carries_what_its_source_says(made):
    assert made.sources == sources()


def test_another_platform_makes_machine_code_of_the_bitcode(made):
    made.triple = "another"
    made.object_file = b"of another platform"
    engine = engine_of(made)
    assert all(engine.get_function_address(name) for name in ALL)


def test_saved_kernels_are_loaded(made, tmp_path):
    assert load(tmp_path) is None
    made.save(tmp_path)
    assert vars(load(tmp_path)) == vars(made)
    assert len(list(tmp_path.iterdir())) == 3


def test_the_committed_machine_code_is_that_of_the_committed_kernels():
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs git and a clone of the repository")
    directory = "src/kohort/columnar"
    command = ["git", "-C", str(ROOT), "archive", "--format=zip", "HEAD", directory]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    committed = zipfile.Path(io.BytesIO(archive)) / directory
    found = load(committed)
    assert found is not None, REBUILD
    assert found.sources == sources(committed), REBUILD
    assert found.triple == "x86_64-unknown-linux-gnu", REBUILD


@pytest.mark.usefixtures("forgetful")
def test_changed_kernels_are_compiled_to_what_the_package_carries(made, monkeypatch, tmp_path):
    pytest.importorskip("numba")
    monkeypatch.setattr(machine_code, "HERE", tmp_path)
    addresses.cache_clear()
    assert addresses().keys() == ALL
    rebuilt = load(tmp_path)
    assert rebuilt.sources == made.sources
    if rebuilt.triple != made.triple or rebuilt.compiler != made.compiler:
        pytest.skip(
            f"the package carries machine code for {made.triple} by {made.compiler};"
            f" here is {rebuilt.triple} with {rebuilt.compiler}"
        )
    assert rebuilt.object_file == made.object_file, REBUILD


def test_the_carried_machine_code_was_compiled_by_the_pinned_versions(made):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    development = set(project["optional-dependencies"]["dev"])
    assert {each.replace(" ", "==") for each in made.compiler.split(", ")} <= development, REBUILD


@pytest.mark.usefixtures("forgetful")
def test_kernels_that_cannot_be_compiled_are_told(monkeypatch, tmp_path):
    monkeypatch.setattr(machine_code, "HERE", tmp_path / "missing")
    with pytest.raises(KohortError, match=r"numba and to write to .*missing: \w*Error"):
        addresses()


def test_a_package_in_a_zip_file_has_its_machine_code(tmp_path):
    addresses()
    package = shutil.make_archive(str(tmp_path / "kohort"), "zip", Path(kohort.__file__).parents[1])
    program = """
import kohort.columnar.machine_code
assert ".zip/" in kohort.columnar.machine_code.__file__
assert kohort.columnar.machine_code.addresses()
"""
    environment = {**os.environ, "PYTHONPATH": package}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


@pytest.mark.parametrize(
    ("data", "table"),
    [
        (np.zeros(3, np.int8), np.empty((1, kernels.BATCH_COLUMNS), np.int64)),
        (np.zeros((3, 1), np.uint8), np.empty((1, kernels.BATCH_COLUMNS), np.int64)),
        (np.zeros(6, np.uint8)[::2], np.empty((1, kernels.BATCH_COLUMNS), np.int64)),
        (np.zeros(3, np.uint8), np.empty((1, kernels.BATCH_COLUMNS), np.int32)),
        (np.zeros(3, np.uint8), np.broadcast_to(np.int64(0), (1, kernels.BATCH_COLUMNS))),
    ],
    ids=["element", "dimensions", "strides", "element written", "read-only"],
)
def test_an_array_of_another_type_is_refused(data, table):
    with pytest.raises(TypeError, match="is needed, not"):
        kernels.scan(data, table)


def test_a_number_of_arguments(made):
    with pytest.raises(ValueError, match="zip"):
        kernels.scan(as_bytes(b""))


@pytest.mark.parametrize("module", compiled.KERNELS)
def test_the_build_of_the_package_can_import_kernels(module: str) -> None:
    """It has numba and what numba needs, and nothing that Kohort needs."""
    tree = ast.parse((compiled.HERE / f"{module}.py").read_text())
    imported = {
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    kernel_modules = {f"kohort.columnar.{name}" for name in (*compiled.KERNELS, "compiling")}
    assert imported <= {"typing", "numpy", *kernel_modules}
