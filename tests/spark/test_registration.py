"""What `register` sets for Spark's Python processes, and what such a process imports then."""

import os
import socket
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyspark
import pytest

from kohort.spark import register
from kohort.spark.registration import SETTINGS, STARTUP
from kohort.spark.source import KohortDataSource
from kohort.spark.startup.sitecustomize import age_s, prefer_installed

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


def test_a_jvm_without_log4j_s_core_registers_all_the_same() -> None:
    """As one that logs by Logback; calling a class that it lacks would raise a TypeError."""
    jvm = MagicMock()
    jvm.org.apache.spark.util.Utils.classIsLoadable = lambda name: ".log4j.core." not in name
    jvm.org.apache.logging.log4j.core.filter.RegexFilter.createFilter.side_effect = TypeError
    spark = MagicMock()
    spark.sparkContext._jvm, spark.sparkContext.environment = jvm, {}
    register(spark)
    spark.dataSource.register.assert_called_once_with(KohortDataSource)


@pytest.mark.parametrize("content", [b"", b"1 (python) S 0", b"1 (python) S" + b" x" * 30])
def test_the_age_of_a_process_that_proc_does_not_tell(
    monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr("builtins.open", lambda *_: BytesIO(content))
    assert age_s() == 0.0


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


RUNNER = """
import os, socket
print("imported", flush=True)
input()
path, port = (os.environ.get(f"PYTHON_WORKER_FACTORY_{each}") for each in ("SOCK_PATH", "PORT"))
connection = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
connection.settimeout(15)
connection.connect(path or ("127.0.0.1", int(port)))
blocks = os.get_blocking(connection.fileno())
connection.sendall(b"hello %d %d" % (connection.gettimeout(), blocks))
"""
"""Connects as the process of a streaming query does when PySpark has been imported."""


def runner(directory: Path, code: str, **variables: str) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a streaming query's process, with `code` in place of PySpark."""
    package = directory / "pyspark"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "runner.py").write_text(code)
    path = os.pathsep.join([STARTUP, str(directory)])
    return [sys.executable, "-m", "pyspark.runner"], {
        **os.environ,
        "PYTHONPATH": path,
        **{f"PYTHON_WORKER_FACTORY_{name}": value for name, value in variables.items()},
    }


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
def test_a_python_process_connects_to_spark_before_it_imports_pyspark(
    family: socket.AddressFamily, tmp_path: Path
) -> None:
    with socket.socket(family) as spark:
        if family is socket.AF_INET:
            spark.bind(("127.0.0.1", 0))
            command, environment = runner(tmp_path, RUNNER, PORT=str(spark.getsockname()[1]))
        else:
            spark.bind(path := str(tmp_path / "socket"))
            command, environment = runner(tmp_path, RUNNER, SOCK_PATH=path)
        spark.listen()
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, env=environment, stdin=pipe, stdout=pipe, text=True
        ) as process:
            assert process.stdin
            assert process.stdout
            assert process.stdout.readline() == "imported\n"
            spark.setblocking(False)
            connection, _ = spark.accept()  # BlockingIOError: it has not connected yet
            with connection:
                process.stdin.write("\n")
                process.stdin.close()
                connection.settimeout(60)
                assert connection.makefile().read() == "hello 15 0"
            with pytest.raises(BlockingIOError):
                spark.accept()
        assert process.returncode == 0


def test_a_python_process_starts_where_spark_does_not_listen_any_more(tmp_path: Path) -> None:
    command, environment = runner(tmp_path, "print('started')", SOCK_PATH=str(tmp_path / "nobody"))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("started\n", "")


LATE = """
import os, sys, time
clock = time.clock_gettime
time.clock_gettime = lambda which: clock(which) + 20.0
sys.orig_argv[1:] = ["-m", "pyspark.runner"]
sys.path.insert(0, os.environ["PYTHONPATH"])  # `sitecustomize` took itself from the path
del sys.modules["sitecustomize"]
import sitecustomize
print("imported")
"""
"""The start of a streaming query's process, 20 s after it was begun."""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nothing tells a process's age")
def test_a_python_process_ends_that_spark_does_not_await_any_more(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as spark:
        spark.bind(path := str(tmp_path / "socket"))
        spark.listen()
        environment = {**os.environ, "PYTHONPATH": STARTUP}
        environment["PYTHON_WORKER_FACTORY_SOCK_PATH"] = path
        command = [sys.executable, "-c", LATE]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert "came too late" in done.stderr


BEFORE_CONNECT = """
import os, sys
sys.path.insert(0, os.environ["PYTHONPATH"])
from sitecustomize import early_connection
before = {*sys.modules}
assert early_connection(["python", "-m", "pyspark.runner"], os.environ)
print(*sorted({*sys.modules} - before), *({"enum", "re", "socket", "typing"} & before))
"""


def test_a_python_process_imports_little_before_it_connects(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as spark:
        spark.bind(path := str(tmp_path / "socket"))
        spark.listen()
        environment = {**os.environ, "PYTHON_WORKER_FACTORY_SOCK_PATH": path}
        environment["PYTHONPATH"] = STARTUP
        command = [sys.executable, "-c", BEFORE_CONNECT]
        printed = subprocess.check_output(command, env=environment, text=True)
        assert printed.split() == ["_socket"]


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


@pytest.mark.clients
def test_register_leaves_spark_s_log_level_to_the_user(session: Any) -> None:
    """A logger with a level of its own would not follow those that are set later."""
    register(session)
    log4j = session.sparkContext._jvm.org.apache.logging.log4j
    manager = log4j.LogManager.getLogger(
        "org.apache.spark.sql.execution.datasources.DataSourceManager"
    )
    session.sparkContext.setLogLevel("FATAL")
    try:
        assert manager.getLevel().toString() == "FATAL"
    finally:
        session.sparkContext.setLogLevel("ERROR")
    assert not log4j.LogManager.getContext(False).getConfiguration().hasFilter()


@pytest.mark.clients
def test_processes_of_the_source_get_the_path_of_the_session(
    session: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    session.sparkContext.setLogLevel("WARN")
    try:
        register(session)
    finally:
        session.sparkContext.setLogLevel("ERROR")
    manager = session._jsparkSession.sessionState().dataSourceManager()
    variables = manager.lookupDataSource("kohort").dataSourceCls().envVars()
    assert STARTUP in variables.get("PYTHONPATH").split(os.pathsep)
    assert "replaced" not in capfd.readouterr().err
