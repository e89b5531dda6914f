"""The demo with Spark: two queries share the topic as one group, and count delays over the day."""

import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape

from kohort.errors import ConfigError
from kohort_demo import flights
from kohort_demo.errors import DemoError
from kohort_demo.group import GroupState, group_state
from kohort_demo.history import show_history
from kohort_demo.loading import TOPIC
from kohort_demo.server import Server
from kohort_demo.spark_picture import Carrier, Hour, bars, carriers_table, svg
from kohort_demo.waiting import counting, waiting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kohort_demo.spark_queries import Queries

GROUP: Final = "flight-delays"
DIRECTORY: Final = "spark"
LOG: Final = "spark.log"
PICTURE: Final = "delays.svg"
SETTINGS: Final = {
    "spark.driver.memory": "1g",
    # The counts are small: fewer files, fewer tasks.
    "spark.sql.shuffle.partitions": "2",
    # A busy machine is slow to start Python and to connect with it, and no failure.
    "spark.network.timeout": "1800s",
    "spark.python.authenticate.socketTimeout": "300s",
}
TITLE: Final = "Departure delays over the day, New York City 2013, minutes on average"


def continued(
    server: Server,
    ends: Mapping[int, int],
    data: Path,
    console: Console,
    groups: Sequence[str] = (),
) -> None:
    """The whole part, with the history of `groups`; one line says why, if Spark cannot run here.

    DemoError if the result is wrong. Ctrl-C ends it by KeyboardInterrupt alone.
    """
    # PySpark warns of the newest pandas, which nothing here uses.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    try:
        from kohort.spark.session import spark_session

        with ExitStack() as opened:
            console.print("\nStarting Spark: some ten seconds, more on a busy machine.")
            with standard_error_in(data / LOG), waiting(console, lambda: "Starting Spark"):
                spark = opened.enter_context(spark_session("kohort demo", settings=SETTINGS))
            # PySpark's handler cancels jobs through the connection that it has just interrupted,
            # and py4j logs the traceback of the interrupt.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            logging.disable()
            opened.callback(logging.disable, logging.NOTSET)
            group = _perform(spark, server, ends, data / DIRECTORY, console)
            show_history(spark, server, [*groups, group], data, console)
    except (ConfigError, ImportError) as error:
        console.print(f"The part with Spark is left out: {escape(str(error))}")


@contextmanager
def standard_error_in(path: Path) -> Iterator[None]:
    """Have processes that are started meanwhile write their standard error to a file.

    Those of Spark print tracebacks when a query is stopped in the middle.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _perform(
    spark: "SparkSession",
    server: Server,
    ends: Mapping[int, int],
    directory: Path,
    console: Console,
) -> str:
    """Run the queries and show their result; the name of their group."""
    from kohort_demo.spark_delays import latest, over_the_day, per_carrier
    from kohort_demo.spark_queries import NAMES, Queries

    group = next_name(server.groups())
    console.print(
        f"\n[bold]Spark[/]: the queries {' and '.join(NAMES)} share the topic as group {group}."
    )

    def state() -> GroupState:
        return group_state(group, server.group(group), TOPIC, ends)

    with Queries(spark, server.address, TOPIC, group, directory, console.print) as queries:
        for name in NAMES:
            queries.start(name)
        read = _watched(queries, state, sum(ends.values()), console)
        shared = {member.client_id: member.partitions for member in state().members}
        with waiting(console, lambda: "Adding up what the queries wrote"):
            totals = latest(queries.table()).cache()
            carriers = [
                Carrier(row.carrier, row.flights, row.departed, row.delay)
                for row in per_carrier(totals).collect()
            ]
            hours = [
                Hour(row.hour, row.flights, row.delay) for row in over_the_day(totals).collect()
            ]
    for name, count in read.items():
        console.print(
            f"  {name}: {count:,} records; partitions "
            f"{', '.join(map(str, shared.get(name, ()))) or 'none'}"
        )
    console.print(carriers_table(carriers), "")
    console.print(f"{TITLE}:")
    console.print(bars(hours))
    (directory / PICTURE).write_text(svg(hours, TITLE), encoding="utf-8")
    console.print(f"Tables and the picture {PICTURE} are in {escape(str(directory))}.")
    counted = sum(each.flights for each in carriers)
    if sum(ends.values()) == flights.COUNT and (sentence := deviation(counted)) is not None:
        console.print(sentence)
    return group


def deviation(counted: int) -> str | None:
    """Why the queries counted some flights twice, if they did; DemoError if they left some out."""
    if counted < flights.COUNT:
        raise DemoError(
            f"the result is wrong, which is a bug: {counted:,} of {flights.COUNT:,} flights "
            "were counted"
        )
    if counted == flights.COUNT:
        return None
    return (
        f"{counted - flights.COUNT:,} flights were counted twice: a query lost partitions in the "
        "middle of a micro-batch, which their next owner then read again (at least once)."
    )


def _watched(
    queries: "Queries", state: Callable[[], GroupState], total: int, console: Console
) -> Mapping[str, int]:
    with counting(console, "Spark", total) as on_progress:
        return queries.run(state, lambda read: on_progress(sum(read.values())))


def next_name(taken: Collection[str]) -> str:
    """A group that no earlier run on this data used: its offsets would be at the end already."""
    number = 1
    while (name := f"{GROUP}-{number}") in taken:
        number += 1
    return name
