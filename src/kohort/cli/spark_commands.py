"""What the commands that start Spark have in common: options, the session, and its errors."""

import argparse
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kohort.cli.client_options import client_config, client_properties, timeout_ms
from kohort.cli.options import RefusedError
from kohort.cli.signals import received_signals
from kohort.client.properties import LIBRDKAFKA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CAUSE: Final = re.compile(r"\bkohort(?:\.\w+)*\.[A-Z]\w*: (.+)")
"""An error of kohort as Python prints it, with the name of its class."""


def add_spark_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--conf",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="set a Spark property; repeatable",
    )
    parser.add_argument(
        "--master",
        default="local[*]",
        metavar="URL",
        help="Spark master, as spark://HOST:PORT (default: local[*])",
    )


def quieten_pyspark() -> None:
    """To be called before PySpark is imported: it warns of the newest pandas, which is not used."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")


@contextmanager
def running_spark(
    name: str,
    master: str,
    settings: Mapping[str, str],
    configured: "Callable[[SparkSession.Builder], SparkSession.Builder]" = lambda builder: builder,
) -> "Iterator[tuple[SparkSession, list[int]]]":
    """A session, stopped at the end, and the numbers of signals received since its start.

    `settings`: Spark properties, stronger than those of `configured`. Raises ConfigError.
    """
    from kohort.spark.session import spark_session

    session = spark_session(
        name,
        master=master,
        settings=settings,
        configured=configured,
        with_vectors=False,
    )
    # Twice, because PySpark replaces the first handler by its own.
    with received_signals() as early, session as spark, received_signals() as received:
        yield spark, early or received


def spark_properties(options: argparse.Namespace) -> dict[str, str]:
    """The Spark properties of `--conf`. Raises RefusedError."""
    settings = {}
    for word in options.conf:
        name, equals, value = word.partition("=")
        if not equals:
            raise RefusedError(f"--conf {word}: is not NAME=VALUE")
        settings[name] = value
    return settings


def kafka_options(options: argparse.Namespace) -> dict[str, str]:
    """`kafka.*` options from `-b`, `-F` and `-X`. Raises RefusedError."""
    from kohort.spark import kafka_options

    properties = client_properties(options, kafka_options.READS)
    client_config(options, properties)
    explicit = (word.partition("=")[0] for word in options.properties)
    names = {LIBRDKAFKA.get(name, name) for name in explicit}
    supported = {
        name: value
        for name, value in properties.items()
        if name in names or name in kafka_options.KNOWN
    }
    return {
        "bootstrap.servers": "localhost:9092",
        "default.api.timeout.ms": str(timeout_ms(options)),
    } | supported


def failure(error: str) -> str:
    """The message of a Python error within Spark's error, or else the first line of that."""
    causes = _CAUSE.findall(error)
    return str(causes[-1]) if causes else error.strip().partition("\n")[0]
