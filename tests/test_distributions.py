"""What the distributions of this repository hold, and what they say of each other."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kohort import __version__

ROOT = Path(__file__).parents[1]
CONFORMANCE = ROOT / "packages/conformance"
MACHINE_CODE = {f"kohort/columnar/machine_code.{end}" for end in ("bc", "json", "o")}
wheels = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
sdists = pytest.importorskip("hatchling.builders.sdist", reason="hatchling is not installed")


def project(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return found


def held(builder: Any) -> set[str]:
    """The paths of the files in a distribution, without its metadata."""
    data = {"artifacts": [], "force_include": {}, **builder.get_default_build_data()}
    with builder.config.set_build_data(data):
        return {
            each.distribution_path.removeprefix("/") for each in builder.recurse_included_files()
        }


def tops(paths: set[str]) -> set[str]:
    return {path.partition("/")[0] for path in paths}


def test_the_wheel_holds_the_product_alone() -> None:
    paths = held(wheels.WheelBuilder(str(ROOT)))
    assert tops(paths) == {"kohort", "pyspark_kohort"}
    assert {"kohort/py.typed", "kohort/cli/conformance.py"} <= paths
    assert not {"conformance", "demo"} & {path.split("/")[1] for path in paths}
    assert not [path for path in paths if path.endswith(".jsonl")]
    assert paths >= MACHINE_CODE


def test_a_build_needs_hatchling_alone() -> None:
    for root in (ROOT, CONFORMANCE):
        build = tomllib.loads((root / "pyproject.toml").read_text())["build-system"]
        assert build["requires"] == ["hatchling"]


def test_the_wheel_of_conformance_holds_the_scenarios_and_the_responses() -> None:
    paths = held(wheels.WheelBuilder(str(CONFORMANCE)))
    assert tops(paths) == {"kohort_conformance"}
    assert "kohort_conformance/apache-kafka-4.4.0.jsonl" in paths
    assert "kohort_conformance/py.typed" in paths
    assert len([path for path in paths if "/scenarios/" in path]) > 50


def test_an_sdist_holds_what_its_wheel_is_built_from() -> None:
    own, other = (held(sdists.SdistBuilder(str(root))) for root in (ROOT, CONFORMANCE))
    needed = {"src", "pyproject.toml", "README.md", "LICENSE"}
    extra = {".gitignore"}  # for builds from it
    assert tops(own) - extra == needed | {"CHANGELOG.md"}
    assert tops(other) - extra == needed
    assert {"src/kohort/__init__.py", "src/pyspark_kohort/__init__.py"} <= own
    assert {f"src/{path}" for path in MACHINE_CODE} <= own
    assert "src/kohort_conformance/apache-kafka-4.4.0.jsonl" in other


def test_both_have_one_version_and_the_extra_asks_for_it() -> None:
    own, other = project(ROOT), project(CONFORMANCE)
    assert own["version"] == other["version"] == __version__
    assert own["optional-dependencies"]["conformance"] == [f"kohort-conformance=={__version__}"]


def test_conformance_requires_nothing_that_kohort_requires_otherwise() -> None:
    own, other = project(ROOT), project(CONFORMANCE)
    assert set(other["dependencies"]) <= set(own["dependencies"])
    assert other["license"] == own["license"]
    assert (CONFORMANCE / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("arguments", [("--help",), ("completion", "bash"), ("serve", "--help")])
def test_a_command_imports_conformance_only_when_it_compares(arguments: tuple[str, ...]) -> None:
    code = (
        "import sys\n"
        "from kohort.cli.app import run\n"
        f"assert run({list(arguments)!r}) == 0\n"
        "assert 'kohort_conformance' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=120)
