"""What the distributions of this repository hold, and what they say of each other."""

import hashlib
import json
import re
import subprocess
import sys
import tomllib
import zipfile
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


def metadata() -> Any:
    """Hatchling's metadata of Kohort."""
    from hatchling.plugin.manager import PluginManager

    return wheels.WheelBuilder(str(ROOT), plugin_manager=PluginManager()).metadata


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
    assert tops(own) - extra == needed | {"hatch_build.py", "CHANGELOG.md"}
    assert tops(other) - extra == needed
    assert {"src/kohort/__init__.py", "src/pyspark_kohort/__init__.py"} <= own
    assert {f"src/{path}" for path in MACHINE_CODE} <= own
    assert "src/kohort_conformance/apache-kafka-4.4.0.jsonl" in other


def test_both_have_one_version_and_the_extra_asks_for_it() -> None:
    own, other = project(ROOT), project(CONFORMANCE)
    assert metadata().version == other["version"] == __version__
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


def test_the_index_page_has_no_link_that_needs_a_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    repository = "https://github.com/somebody/kohort"
    monkeypatch.setenv("KOHORT_REPOSITORY", repository + "/")
    core = metadata().core
    page = core.readme
    targets = re.findall(r"\]\(([^)#][^)]*)\)", page)
    assert len(targets) > 20
    assert [each for each in targets if not each.startswith("https://")] == []
    tagged = re.escape(f"{repository}/") + rf"(?:raw|blob)/v{re.escape(__version__)}/([^#]*)"
    linked = {match[1] for each in targets if (match := re.fullmatch(tagged + ".*", each))}
    assert "docs/client.md" in linked
    assert [each for each in linked if not (ROOT / each).exists()] == []
    pictures = re.findall(r"!\[[^]]*\]\(([^)]*)\)", page)
    assert [each for each in pictures if "/raw/" not in each or not each.endswith(".png")] == []
    assert core.urls["Changelog"] == f"{repository}/blob/v{__version__}/CHANGELOG.md"


def test_a_build_of_a_clone_names_no_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KOHORT_REPOSITORY", raising=False)
    core = metadata().core
    assert core.urls == {}
    assert core.readme == (ROOT / "README.md").read_text()


def test_the_wheel_has_a_bill_of_materials(tmp_path: Path) -> None:
    schema = pytest.importorskip("cyclonedx.schema", reason="cyclonedx is not installed")
    validation = pytest.importorskip("cyclonedx.validation.json")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"kohort-{__version__}.dist-info/sboms/kohort.cdx.json").decode()
        code = archive.read("kohort/columnar/machine_code.o")
    assert validation.JsonStrictValidator(schema.SchemaVersion.V1_6).validate_str(text) is None
    components = {each["name"]: each for each in json.loads(text)["components"]}
    hashed = components["kohort/columnar/machine_code.o"]["hashes"][0]["content"]
    assert hashed == hashlib.sha256(code).hexdigest()
    required = {re.split(r"[^A-Za-z0-9-]", each)[0] for each in project(ROOT)["dependencies"]}
    assert components.keys() >= required


def test_classifiers_name_the_tested_versions_of_python() -> None:
    for root in (ROOT, CONFORMANCE):
        found = [each for each in project(root)["classifiers"] if ":: Python :: 3." in each]
        assert [each.rpartition(".")[2] for each in found] == ["11", "12", "13", "14"]


def base_packages() -> dict[str, list[str]]:
    """Packages of the base installation with the file names of their wheels, by uv.lock."""
    locked = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    by_name = {each["name"]: each for each in locked}
    found: dict[str, list[str]] = {}
    open_names = ["kohort"]
    while open_names:
        package = by_name[open_names.pop()]
        if package["name"] not in found:
            urls = [wheel["url"] for wheel in package.get("wheels", ())]
            found[package["name"]] = [url.rpartition("/")[2] for url in urls]
            open_names += [each["name"] for each in package.get("dependencies", ())]
    del found["kohort"]
    return found


@pytest.mark.parametrize("python", [11, 12, 13, 14])
@pytest.mark.parametrize(
    "platform",
    ["musllinux_1_2_x86_64", "musllinux_1_2_aarch64", "manylinux_2_28_x86_64", "macosx_15_0_arm64"],
)
def test_each_package_of_the_base_has_a_wheel(platform: str, python: int) -> None:
    tags = pytest.importorskip("packaging.tags", reason="packaging is not installed")
    utils = pytest.importorskip("packaging.utils")
    kind, _, rest = platform.partition("_")
    if kind == "macosx":
        platforms = list(tags.mac_platforms((15, 0), "arm64"))
    else:
        major, minor, arch = rest.split("_", 2)
        platforms = [f"{kind}_{major}_{lower}_{arch}" for lower in range(int(minor) + 1)]
        platforms += [f"manylinux2014_{arch}"] if kind == "manylinux" else []
    supported = {
        *tags.cpython_tags((3, python), platforms=platforms),
        *tags.compatible_tags((3, python), f"cp3{python}", platforms),
    }
    packages = base_packages()
    assert {"kio", "uvloop", "rich", "pygments"} <= packages.keys()
    missing = [
        name
        for name, wheels in packages.items()
        if not any(utils.parse_wheel_filename(each)[3] & supported for each in wheels)
    ]
    assert missing == []
