"""The demo from the command to the end: server, data, show, summary, and a server that stays."""

import argparse
import os
import signal
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kohort.demo import flights
from kohort.demo.errors import DemoError
from kohort.demo.server import Server

FAILED, INTERRUPTED = 1, 130
"""Exit codes."""
LEAST_SECONDS = 5.0

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


def run(options: argparse.Namespace) -> int:
    """Perform the whole show; the exit code.

    The server stays until Ctrl-C; without a terminal, or with KOHORT_DEMO_EXIT=1, it ends with the
    summary.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        needed()
        with Server(address(options.listen), options.data) as server:
            ends = perform(
                server, options.data, max(options.seconds, LEAST_SECONDS), options.picture
            )
            if not options.no_spark:
                from kohort.demo.spark import continued

                continued(server, ends, options.data, console)
            if stays():
                invite(server)
                linger(server)
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


def perform(server: Server, data: Path, seconds: float, picture: Path | None) -> dict[int, int]:
    """The group's part; the topic's end offsets."""
    if server.moved_from is not None:
        console.print(
            f"Port {server.moved_from} is taken: the server listens on {server.address} instead."
        )
    console.print(f"[bold]kohort serve[/] on {server.address}, its data under {escape(str(data))}")
    from kohort.demo.show import Show
    from kohort.demo.stage import Display
    from kohort.demo.summary import summary

    ends = filled(server)
    show = Show(server, ends, seconds, data / "members.log")
    console.print(f"Group {show.group_id}: three members. One joins, one leaves, one is killed.\n")
    with Display(console, picture) as stage:
        outcome = show.run(stage.show)
    console.print(summary(outcome), "")
    if problems := outcome.problems():
        raise DemoError("the result is wrong, which is a bug: " + "; ".join(problems))
    return ends


def filled(server: Server) -> dict[int, int]:
    """The topic's end offsets, after loading it if it is not there yet."""
    from kohort.demo import loading

    if (ends := loading.existing(server.address)) is not None:
        count = sum(ends.values())
        console.print(
            f"Topic {loading.TOPIC} has its {count:,} records from an earlier run: not "
            "loaded again."
        )
        return dict(ends)
    columns = (
        TextColumn("Loading flights"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=flights.COUNT)
        rows = flights.read(flights.archive())
        ends = loading.load(
            server.address, rows, lambda done: progress.update(task, completed=done)
        )
    console.print(
        f"Topic {loading.TOPIC} has {sum(ends.values()):,} records in {len(ends)} "
        "partitions, keyed by carrier."
    )
    return dict(ends)


def needed() -> None:
    """Raise DemoError unless the packages of the extra `demo` are installed."""
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        raise DemoError(
            "the demo needs confluent-kafka: pip install 'kohort[demo]', or run `make run`"
        ) from None
    flights.archive()


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65_536:
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
    console.print(f"  kcat -b {server.address} -C -t flights -c 3")
    console.print(f"  kcat -b {server.address} -G my-group flights")
    console.print(f"  curl http://{server.http}/groups")
    console.print("Ctrl-C stops it.")


def linger(server: Server) -> None:
    """Until Ctrl-C, which is a good end; DemoError if the server ends by itself."""
    try:
        server.wait()
    except KeyboardInterrupt:
        console.print()
