"""What `register` sets for Spark's Python processes, and what such a process imports then."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from kohort.spark import register
from kohort.spark.registration import SETTINGS, STARTUP
from kohort.spark.startup.sitecustomize import prefer_installed

ARCHIVES = Path(pyspark.__file__).parent / "python" / "lib"
ARCHIVE = str(ARCHIVES / "pyspark.zip")
FROM = "import pyspark, py4j, sys; print(pyspark.__file__, py4j.__file__, sep='\\n')"


def python(code: str, *path: str) -> str:
    """What `code` prints in a Python process with `path` as its PYTHONPATH."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_python_process_imports_pyspark_as_it_is_installed() -> None:
    archives = [str(each) for each in sorted(ARCHIVES.glob("*.zip"))]
    assert len(archives) > 1
    assert ".zip" in python(FROM, *archives)
    assert ".zip" not in python(FROM, *archives, STARTUP)


def test_an_archive_of_another_pyspark_stays_in_front() -> None:
    path = ["", "/opt/spark/python/lib/pyspark.zip", "/opt/spark/python/lib/py4j-src.zip", "/site"]
    assert prefer_installed(path) == path


def test_an_archive_stays_on_the_path_behind_what_is_installed() -> None:
    archives = ["/site/pyspark/python/lib/pyspark.zip", "/site/pyspark/python/lib/py4j-src.zip"]
    found = prefer_installed(["", *archives, "/mine", "/site", "/other"])
    assert found == ["", "/mine", "/site", "/other", *archives]


def test_a_site_customization_of_the_user_is_imported_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.mine = 1\n")
    code = "import sitecustomize, sys; print(sys.mine, sitecustomize.__file__)"
    assert python(code, STARTUP, str(tmp_path)) == f"1 {tmp_path / 'sitecustomize.py'}"
    assert python("import sys; print('kohort' in sys.modules)", STARTUP) == "False"


def test_an_error_in_a_site_customization_of_the_user_is_told(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import not_there\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([STARTUP, str(tmp_path)])}
    done = subprocess.run(
        [sys.executable, "-c", ""], env=environment, capture_output=True, text=True, check=False
    )
    assert "not_there" in done.stderr


@pytest.mark.clients
def test_register_keeps_what_the_session_has_set(
    session: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (name,) = SETTINGS
    session.conf.set(name, "9m")
    try:
        register(session)
        assert session.conf.get(name) == "9m"
        session.conf.unset(name)
        with caplog.at_level("INFO", logger="kohort.spark"):
            register(session)
            register(session)
        assert session.conf.get(name) == SETTINGS[name]
        assert [each.message for each in caplog.records].count(
            f"set {name}=4m for this session"
        ) == 1
        assert session.sparkContext.environment["PYTHONPATH"].split(os.pathsep).count(STARTUP) == 1
        assert session.read.format("kohort")
    finally:
        session.conf.unset(name)
