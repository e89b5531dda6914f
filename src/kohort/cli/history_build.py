"""Read __consumer_offsets into the tables of a history, and end; --follow continues.

SOURCE is a broker as HOST:PORT, or a path of segment files: a data directory, several with commas,
or the directory of a partition. A broker has to allow READ on the topic. A later build continues
where the one before ended, also after a kill. Only one build writes into a directory at a time.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kohort.cli.broker_check import await_broker
from kohort.cli.client_options import add_client_arguments
from kohort.cli.exit_codes import FAILED, FOUND
from kohort.cli.options import RefusedError
from kohort.cli.output import print_message
from kohort.cli.spark_commands import (
    add_spark_arguments,
    failure,
    kafka_options,
    quieten_pyspark,
    running_spark,
    spark_properties,
)
from kohort.errors import ConfigError, KohortError
from kohort.history.broker_configs import BROKER_CONFIGS, options_of_configs
from kohort.util.text import closest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kohort.spark.history.building import BuildResult

_KEEP: Final = re.compile(r"([0-9]{1,9})([dhw])")
_UNITS_MS: Final = {"h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DEFAULT_EVERY: Final = "60 seconds"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    add = parser.add_argument
    add(
        "source",
        nargs="?",
        metavar="SOURCE",
        help="broker as HOST:PORT, or path of segment files (default: the brokers of -b)",
    )
    add("--out", required=True, metavar="DIR", help="directory or URL of the history")
    add("--follow", action="store_true", help="run continuously, until a signal; of brokers only")
    add(
        "--every",
        metavar="INTERVAL",
        help=f"interval of --follow, as '10 seconds' (default: {_DEFAULT_EVERY})",
    )
    add("--keep", metavar="AGE", help="remove rows that are older, as 90d, 12h or 8w")
    add(
        "--broker-config",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="config of the brokers whose files are read, if it is not Kafka's default: "
        f"{', '.join(BROKER_CONFIGS)}; repeatable",
    )
    add(
        "--strict",
        action="store_true",
        help="exit with 1 if records could not be decoded; their rows are written in any case",
    )
    add(
        "--no-samples",
        dest="samples",
        action="store_false",
        help="do not ask brokers for the ends of committed topics, which lag needs",
    )
    add_spark_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Build to the end of the log, or until a signal; the exit code. Raises RefusedError."""
    keep_ms = keep(options.keep)
    configs = broker_configs(options.broker_config)
    if options.every is not None and not options.follow:
        raise RefusedError("--every: it is the interval of --follow")
    quieten_pyspark()
    from kohort.history_files.directory import opened_for_writing
    from kohort.history_files.file_system import LockedError, open_files
    from kohort.spark.history.building import now_ms

    settings = spark_properties(options)
    source = source_of(options)
    if configs and not isinstance(source, str):
        raise RefusedError("--broker-config: brokers are asked for it; it is for segment files")
    try:
        # Spark's start takes seconds: a directory of something else is refused before.
        with opened_for_writing(open_files(options.out), now_ms()):
            pass
        if not isinstance(source, str) and (code := await_broker(options)):
            return code
        with running_spark("kohort history", options.master, settings) as (spark, received):
            return _build(spark, source, options, configs, keep_ms, received)
    except RefusedError:
        raise
    except ConfigError as error:
        raise RefusedError(str(error)) from error
    except LockedError as error:
        print_message(str(error))
        return FOUND
    except OSError as error:
        print_message(f"{options.out}: {error.strerror or error}")
        return FAILED
    except KohortError as error:
        print_message(str(error))
        return FAILED


def keep(text: str | None) -> int | None:
    """The age of `--keep` in ms. Raises RefusedError."""
    if text is None:
        return None
    if (found := _KEEP.fullmatch(text)) is None or not int(found[1]):
        raise RefusedError(f"--keep {text}: is not an age as 90d, 12h or 8w, of 1 hour at least")
    return int(found[1]) * _UNITS_MS[found[2]]


def broker_configs(texts: Iterable[str]) -> dict[str, str]:
    """The values of `--broker-config` by name. Raises RefusedError."""
    configs: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in BROKER_CONFIGS:
            match = closest(name, BROKER_CONFIGS)
            hint = f"; is it {match}?" if match else ""
            raise RefusedError(
                f"--broker-config {text}: is none of {', '.join(BROKER_CONFIGS)}{hint}"
            )
        if not (value.isascii() and value.isdecimal()):
            raise RefusedError(f"--broker-config {text}: {value!r} is not a number")
        configs[name] = value
    return configs


def source_of(options: argparse.Namespace) -> str | dict[str, str]:
    """A path, or the options of the brokers. Raises RefusedError."""
    from kohort.spark.history.sources import is_path

    if options.source is None:
        return kafka_options(options)
    if options.bootstrap is not None:
        raise RefusedError(f"SOURCE is {options.source}, and -b {options.bootstrap}: choose one")
    if is_path(options.source):
        if options.follow:
            raise RefusedError(
                f"{options.source}: files cannot be followed, only brokers; build again later"
            )
        return str(options.source)
    options.bootstrap = options.source
    return kafka_options(options)


def _build(
    spark: "SparkSession",
    source: str | dict[str, str],
    options: argparse.Namespace,
    configs: Mapping[str, str],
    keep_ms: int | None,
    received: list[int],
) -> int:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from kohort.spark.history import follow
    from kohort.spark.history.building import StoppedError, build

    try:
        if options.follow:
            follow(
                spark, source, options.out, every=options.every or _DEFAULT_EVERY,
                keep_ms=keep_ms, is_stopped=lambda: bool(received), on_batch=_print_batch,
                samples=options.samples,
            )  # fmt: skip
            return 0
        with _progress(options.out) as show:
            result = build(
                spark, source, options.out, keep_ms=keep_ms, progress=show,
                options=options_of_configs(configs) if configs else None,
                is_stopped=lambda: bool(received), samples=options.samples,
            )  # fmt: skip
    except StoppedError as error:
        print_message(str(error))
        return 128 + received[0]
    except (PySparkException, Py4JError) as error:
        if received:
            return 128 + received[0]
        print_message(failure(str(error)))
        return FAILED
    _print_result(options.out, result)
    if options.strict and result.errors:
        print_message(f"--strict: {result.errors:,} records could not be decoded")
        return FAILED
    return 0


def _print_batch(records: int, seconds: float) -> None:
    print_message(f"{records:,} records in {seconds:.1f} s")


def _print_result(out: str, result: "BuildResult") -> None:
    rows = ", ".join(f"{count:,} {table}" for table, count in result.rows.items() if count)
    errors = f"; {result.errors:,} records could not be decoded" if result.errors else ""
    print_message(f"{out}: {result.records:,} records: {rows or 'nothing new'}{errors}")


@contextmanager
def _progress(name: str) -> Iterator[Callable[[int, int], None]]:
    """Give a function to call with the records done and all; a bar on a terminal."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from kohort.util.printable import printable

    console = Console(stderr=True, highlight=False)
    columns = (
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as drawn:
        task = drawn.add_task(escape(printable(f"building {name}")), total=None)
        yield lambda done, total: drawn.update(task, completed=done, total=max(total, 1))
