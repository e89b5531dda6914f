"""What a client under test is, and those in Python, C and Java; `built.py` has the others,
`roster.py` all of them.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from interop.processes import PATIENCE_S, now
from interop.timeline import Began, Committed, Ended, Event, Failed, Gone, Owns, Records
from peers import kafka

PROGRAMS = Path(__file__).parent / "clients"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SESSION_MS = 6_000
HEARTBEAT_MS = 500
BEYOND_PATIENCE_MS = 300_000
"""The session of a member that loses its partitions only by leaving, however slow the machine.

librdkafka allows no session that is longer than `max.poll.interval.ms`, whose default this is.
"""
assert BEYOND_PATIENCE_MS > 1_000 * PATIENCE_S


@dataclass(frozen=True, slots=True)
class Client:
    """One client library or tool."""

    name: str
    assignor: str
    """Its assignor in a group of its own: between them the clients cover eager and cooperative
    rebalances.
    """
    missing: Callable[[], str | None]
    """Why it cannot run here, or None."""
    command: Callable[[str, Mapping[str, str]], Sequence[str]]
    """The command line for `consume` or `produce` with these options."""
    hears: Callable[[str, str], Event | None]
    """The event that a line of a member's output means, if any."""
    version: Callable[[], str]
    """Which version of which library it is."""
    codecs: tuple[str, ...] = CODECS
    codecs_at_once: bool = True
    """One producer process can write with several codecs."""
    merged_output: bool = False
    """Its stderr tells events too, and is read in one stream with stdout to keep their order."""
    keeps_its_id: bool = True
    """After a lost connection it comes back with its member id; else its session has to expire
    before others go on.
    """
    commits_unprinted: bool = False
    """It commits on its own what it is about to print: a record is lost to the group if the process
    is killed just then, and often if it is asked to leave while records come.
    """
    stand_in: "Client | None" = None
    """Who writes in its place while the server restarts: its own producer knows no idempotence, and
    writes twice.
    """

    def __str__(self) -> str:
        return self.name


def json_event(member: str, line: str) -> Event | None:
    """What a line of `clients/lines.py` means."""
    if not line.startswith("{"):
        return None
    said: dict[str, Any] = json.loads(line)
    at = int(said["at"])
    match said["event"]:
        case "owns":
            return Owns(member, at, frozenset(said["partitions"]))
        case "records":
            return Records(
                member, at, said["partition"], tuple(said["offsets"]), tuple(said["values"])
            )
        case "committed":
            return Committed(member, at, said["offsets"])
        case "failed":
            return Failed(member, at, said["what"])
        case "left":
            return Gone(member, at)
        case "began":
            return Began(
                member, at, said["generation"], said["leads"], frozenset(said["partitions"])
            )
        case "ended":
            return Ended(member, at, said["partition"], said["end"])
        case other:
            raise ValueError(f"{member} said an unknown event {other!r}")


def called(*program: str) -> Callable[[str, Mapping[str, str]], Sequence[str]]:
    """How a program of `clients/lines.py` is called: the mode, and options as `name=value`."""
    return lambda mode, options: [
        *program,
        mode,
        *(f"{name}={value}" for name, value in options.items()),
    ]


def _python(name: str, module: str, program: str, assignor: str) -> Client:
    def missing() -> str | None:
        return None if find_spec(module) else f"the Python package {name} is not installed"

    command = called(sys.executable, str(PROGRAMS / program))
    return Client(name, assignor, missing, command, json_event, lambda: f"{name} {version(name)}")


# --- Apache Kafka's own client
# -----------------------------------------------------------------------------------


@cache
def java_missing() -> str | None:
    """Why Java's client and tools cannot run here; asked for the first time, it gets and compiles
    what they need.
    """
    if shutil.which("javac") is None:
        return "a JDK (javac) is not on the PATH"
    if reason := kafka.missing_tools():
        return reason
    try:
        java_classpath()
    except kafka.KafkaUnavailableError as error:
        return str(error)
    return None


@cache
def java_classpath() -> str:
    """Kafka's JARs, and our programs compiled against them, both under `.tools/`."""
    libs = kafka.resolve()
    classes = kafka.TOOLS / "interop-classes"
    with kafka.building(classes.name):
        compile_java(PROGRAMS, classes, libs)
    return f"{classes}:{libs}/*"


def compile_java(programs: Path, classes: Path, libs: Path) -> None:
    """Compile the programs of a directory if one of them, or the list of JARs, has changed.

    Raises CalledProcessError with what javac wrote.
    """
    classes.mkdir(parents=True, exist_ok=True)
    sources = sorted(programs.glob("*.java"))
    parts = [
        *(source.read_text() for source in sources),
        *sorted(jar.name for jar in libs.iterdir()),
    ]
    compiled, inputs = classes / "inputs", "\n".join(parts)
    if not compiled.exists() or compiled.read_text() != inputs:
        subprocess.run(
            ["javac", "-d", str(classes), "-cp", f"{libs}/*", *map(str, sources)],
            check=True,
            capture_output=True,
            text=True,
        )
        compiled.write_text(inputs)


def java(main_class: str, *args: str, heap: str = "64m", classpath: str = "") -> list[str]:
    """A command line that starts quickly and takes little of a small machine.

    Without a classpath of its own it has Kafka's JARs and our programs.
    """
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Xmx{heap}"]
    quiet = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    return ["java", *quick, *quiet, "-cp", classpath or java_classpath(), main_class, *args]


def _java_command(mode: str, options: Mapping[str, str]) -> Sequence[str]:
    return called(*java("JavaProgram"))(mode, options)


# --- kcat
# --------------------------------------------------------------------------------------------------

REBALANCED = re.compile(r"% Group .* rebalanced \(memberid [^)]*\): (assigned|revoked): (.*)")
OWNED = re.compile(r"(\S+) \[(\d+)\]")


def _kcat_missing() -> str | None:
    return (
        None if shutil.which("kcat") else ("kcat is not on the PATH (Debian: apt-get install kcat)")
    )


def _kcat_version() -> str:
    said = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Version (\S+) .*librdkafka (\S+)", said)
    return f"kcat {found[1]} with librdkafka {found[2]}" if found else "kcat"


def _kcat_command(mode: str, options: Mapping[str, str]) -> list[str]:
    settings = {"reconnect.backoff.ms": "50", "reconnect.backoff.max.ms": "500"}
    if mode == "produce":
        settings |= {
            "enable.idempotence": "true",
            "compression.codec": options["codec"],
            "linger.ms": "5",
        }
        call = ["-P", "-t", options["topic"], "-K", "\t", "-E"]
    else:
        settings |= {
            "client.id": options["client"],
            "partition.assignment.strategy": options["assignor"],
            "session.timeout.ms": options["session"],
            "heartbeat.interval.ms": options["heartbeat"],
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": "200",
            "log_level": "0",  # librdkafka's threads log into the midst of a record's line
        }
        call = ["-G", options["group"], "-J", "-u", "-E", *options["topics"].split(",")]
    if "mechanism" in options:
        settings |= {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": options["mechanism"],
            "sasl.username": options["username"],
            "sasl.password": options["secret"],
            "ssl.ca.location": options["cafile"],
        }
    if "certificate" in options:
        settings |= {
            "security.protocol": "SSL",
            "ssl.ca.location": options["cafile"],
            "ssl.certificate.location": options["certificate"],
            "ssl.key.location": options["certificate"],
        }
    flags = [flag for name, value in settings.items() for flag in ("-X", f"{name}={value}")]
    return ["kcat", "-b", options["bootstrap"], *flags, *call]


def _kcat_event(member: str, line: str) -> Event | None:
    if line.startswith("{"):
        record = json.loads(line)
        partition = f"{record['topic']}-{record['partition']}"
        return Records(member, now(), partition, (record["offset"],), (record["payload"],))
    if told := REBALANCED.match(line):
        partitions = OWNED.findall(told[2]) if told[1] == "assigned" else []
        return Owns(member, now(), frozenset(f"{topic}-{number}" for topic, number in partitions))
    return None


JAVA = Client(
    "java",
    "cooperative-sticky",
    java_missing,
    _java_command,
    json_event,
    lambda: f"Apache Kafka's client {kafka.VERSION}",
)
KOHORT = _python("kohort", "kohort", "kohort_program.py", "cooperative-sticky")
CLIENTS = (
    KOHORT,
    _python("confluent-kafka", "confluent_kafka", "confluent_program.py", "cooperative-sticky"),
    _python("aiokafka", "aiokafka", "aiokafka_program.py", "roundrobin"),
    _python("kafka-python", "kafka", "kafka_python_program.py", "sticky"),
    Client(
        "kcat",
        "range",
        _kcat_missing,
        _kcat_command,
        _kcat_event,
        _kcat_version,
        codecs_at_once=False,
        merged_output=True,
        commits_unprinted=True,
    ),
    JAVA,
)
