"""Send lines of standard input, or files, as records, with kcat's options:

    seq 100 | kohort produce -b HOST:PORT orders
    kohort produce -b HOST:PORT orders -K : -z zstd -H source=shell -l lines.txt

On SIGINT and SIGTERM, lines that were read are sent. Exit code 1 if a record could not be
delivered. With `-X transactional.id=ID` all records are one transaction, as in kcat.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kohort.cli.byte_streams import ByteOutput, chunks, split
from kohort.cli.client_options import (
    add_client_arguments,
    client_config,
    client_properties,
    run_to_exit_code,
    timeout_ms,
)
from kohort.cli.consume_queries import require_partition
from kohort.cli.exit_codes import FAILED
from kohort.cli.message_format import Header, unescape
from kohort.cli.opened_cluster import opened_cluster
from kohort.cli.options import RefusedError
from kohort.cli.output import print_message
from kohort.cli.signals import stop_on_signal, until
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.produce import Producer
from kohort.errors import ConfigError, ErrorCode, KohortError
from kohort.util.text import did_you_mean

MAX_MESSAGE: Final = 1_048_576
BATCH_SIZE: Final = 131_072
"""More than a producer's default: a file is read faster than small batches are acknowledged."""
RANDOM: Final = -1
"""`-p -1`, as kcat has it: any partition."""
_NUMBERS: Final = {
    "linger.ms": "linger_ms",
    "batch.size": "batch_size",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "max.request.size": "max_request_size",
    "buffer.memory": "buffer_memory",
    "max.block.ms": "max_block_ms",
    "max.in.flight.requests.per.connection": "max_in_flight_requests_per_connection",
    "compression.level": "compression_level",
    "transaction.timeout.ms": "transaction_timeout_ms",
}
_WORDS: Final = {
    "acks": "acks",
    "compression.type": "compression",
    "partitioner": "partitioner",
    "transactional.id": "transactional_id",
}
_IDEMPOTENCE: Final = "enable.idempotence"
_OWN: Final = (*_NUMBERS, *_WORDS, _IDEMPOTENCE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    add = parser.add_argument
    add(
        "-t",
        "--topic",
        dest="topic",
        metavar="TOPIC",
        help="topic to write (default: the first argument)",
    )
    add(
        "-p",
        dest="partition",
        metavar="N",
        type=int,
        help=("partition to write (default: by the key, as in Java's producer)"),
    )
    add(
        "files",
        nargs="*",
        metavar="FILE",
        type=Path,
        help="files to send, one record each; without -t the first argument is the topic",
    )
    add(
        "-l",
        dest="lines",
        action="store_true",
        help=("read records from the one FILE as from standard input"),
    )
    add(
        "-D",
        dest="delimiter",
        metavar="DELIMITER",
        default=r"\n",
        help="delimiter between records (default: newline)",
    )
    add("-K", dest="key_delimiter", metavar="DELIMITER", help="delimiter between key and value")
    add("-k", dest="key", metavar="KEY", help="key of records without a key")
    add(
        "-H",
        dest="headers",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="header of all records; repeatable",
    )
    add("-z", dest="codec", metavar="CODEC", help="compression codec: gzip, snappy, lz4 or zstd")
    add("-Z", dest="null", action="store_true", help="send empty keys and values as null")
    add("-c", dest="count", metavar="N", type=int, help="exit after N records")
    add("-T", dest="tee", action="store_true", help="copy the sent records to standard output")
    add("-q", dest="quiet", action="store_true", help="print only errors to stderr")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFormat:
    """How input becomes records."""

    delimiter: bytes
    key_delimiter: bytes | None
    key: bytes | None
    headers: tuple[Header, ...]
    null: bool

    def record(self, message: bytes) -> tuple[bytes | None, bytes | None]:
        """Key and value."""
        key: bytes | None = None
        value: bytes | None = message
        if self.key_delimiter is not None and self.key_delimiter in message:
            key, _, value = message.partition(self.key_delimiter)
            if self.null:
                key, value = key or None, value or None
        return self.key if key is None else key, value


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    if options.topic is None:
        if not options.files:
            raise RefusedError("a topic is missing: kohort produce TOPIC, or -t TOPIC")
        options.topic = str(options.files.pop(0))
    try:
        properties = client_properties(options, _OWN)
        form = _input_format(options)
        settings = _settings(options, properties)
        work = _Work(options, form)
        return run_to_exit_code(work.run(client_config(options, properties), settings))
    except ConfigError as error:
        raise RefusedError(str(error)) from error


def _input_format(options: argparse.Namespace) -> InputFormat:
    """Raises ConfigError."""
    if options.lines and len(options.files) != 1:
        raise ConfigError("-l: takes one file of records")
    if options.count is not None and options.count < 1:
        raise ConfigError(f"-c {options.count}: is not a number of records")
    for flag, text in (("-D", options.delimiter), ("-K", options.key_delimiter)):
        if text == "":
            raise ConfigError(f"{flag}: the delimiter is empty")
    return InputFormat(
        delimiter=unescape(options.delimiter),
        key_delimiter=None if options.key_delimiter is None else unescape(options.key_delimiter),
        key=None if options.key is None else _bytes(options.key),
        headers=tuple(map(_header, options.headers)),
        null=options.null,
    )


def _bytes(argument: str) -> bytes:
    return argument.encode("utf-8", "surrogateescape")


def _header(text: str) -> Header:
    """NAME=VALUE, or NAME for a header whose value is null. Raises ConfigError."""
    name, equals, value = text.partition("=")
    if not name:
        raise ConfigError(f"-H {text}: is not NAME=VALUE")
    return name, _bytes(value) if equals else None


def _settings(options: argparse.Namespace, properties: Mapping[str, str]) -> dict[str, Any]:
    """The options of Producer. Raises ConfigError."""
    settings: dict[str, Any] = {"batch_size": BATCH_SIZE, "max_block_ms": timeout_ms(options)}
    for name, option in _NUMBERS.items():
        if name in properties:
            if not properties[name].isdecimal():
                raise ConfigError(f"{name}={properties[name]}: is not a number")
            settings[option] = int(properties[name])
    settings |= {option: properties[name] for name, option in _WORDS.items() if name in properties}
    if _IDEMPOTENCE in properties:
        settings["enable_idempotence"] = properties[_IDEMPOTENCE].lower() == "true"
    return settings if options.codec is None else settings | {"compression": options.codec}


class _Work:
    """From input to the cluster."""

    def __init__(self, options: argparse.Namespace, form: InputFormat) -> None:
        self._options = options
        self._topic: str = options.topic
        self._partition: int | None = None if options.partition == RANDOM else options.partition
        self._files: Sequence[Path] = options.files
        self._lines: bool = options.lines
        self._remaining: int | None = options.count
        self._quiet: bool = options.quiet
        self._sent = 0
        self._tee = ByteOutput() if options.tee else None
        self._input_format = form
        self._limit = MAX_MESSAGE

    async def run(self, config: ClientConfig, settings: Mapping[str, Any]) -> int:
        """The exit code. Raises KohortError, OSError."""
        self._limit = settings.get("max_request_size", MAX_MESSAGE)
        async with (
            opened_cluster(self._options, config) as cluster,
            Producer(cluster, **settings) as producer,
        ):
            is_new = await self._is_new(cluster)
            stop = stop_on_signal()  # not before: without a broker a signal ends the process
            scope = producer.transaction() if "transactional_id" in settings else nullcontext()
            async with scope:
                code = await self._send_all(producer, stop)
            await producer.flush()
            if not self._quiet:
                await self._print_summary(cluster, is_new=is_new)
        return code

    async def _print_summary(self, cluster: Cluster, *, is_new: bool) -> None:
        new = ""
        if is_new and self._sent:
            others = (
                topic for topic in await Admin(cluster).describe_topics() if topic != self._topic
            )
            new = f", which is new{did_you_mean(self._topic, others)}"
        records = "record" if self._sent == 1 else "records"
        print_message(f"{self._sent} {records} to topic {self._topic}{new}")

    async def _is_new(self, cluster: Cluster) -> bool:
        """Whether the server has to create the topic.

        Raises KohortError if it exists without the partition, for which no wait would help.
        """
        topic = (await cluster.metadata([self._topic])).topics[self._topic]
        if self._partition is not None and topic.error is ErrorCode.none:
            require_partition(topic, self._partition)
        return topic.error is ErrorCode.unknown_topic_or_partition

    async def _send_all(self, producer: Producer, stop: asyncio.Event) -> int:
        if self._files and not self._lines:
            return await self._send_files(producer, stop)
        try:
            await self._send_lines(producer, stop)
        except (OSError, ValueError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise KohortError(str(error)) from error
        return 0

    async def _send_lines(self, producer: Producer, stop: asyncio.Event) -> None:
        with self._input() as descriptor:
            async for messages in until(
                stop, split(chunks(descriptor), self._input_format.delimiter, self._limit)
            ):
                for message in messages[: self._remaining]:
                    key, value = self._input_format.record(message)
                    await self._send(producer, key, value, message)
                if self._remaining is not None:
                    self._remaining -= min(self._remaining, len(messages))
                    if not self._remaining:
                        return

    @contextmanager
    def _input(self) -> Iterator[int]:
        """The descriptor to read. Raises OSError."""
        if not self._files:
            if sys.stdin is None:
                raise KohortError("standard input is closed")
            yield sys.stdin.fileno()
            return
        with self._files[0].open("rb") as file:
            yield file.fileno()

    async def _send_files(self, producer: Producer, stop: asyncio.Event) -> int:
        """Send each file as one record.

        Empty ones are skipped, as in kcat, unreadable ones reported.
        """
        failed = 0
        for file in self._files[: self._remaining]:
            if stop.is_set():
                break
            try:
                content = file.read_bytes()
            except OSError as error:
                is_missing = isinstance(error, FileNotFoundError)
                hint = "; without a FILE, records are lines of standard input" if is_missing else ""
                print_message(f"{file}: {error.strerror}{hint}")
                failed += 1
                continue
            if content:
                await self._send(producer, self._input_format.key, content, content)
        return FAILED if failed else 0

    async def _send(
        self, producer: Producer, key: bytes | None, value: bytes | None, message: bytes
    ) -> None:
        await producer.send(
            self._topic,
            value,
            key=key,
            headers=self._input_format.headers,
            partition=self._partition,
        )
        self._sent += 1
        if self._tee is not None:
            await self._tee.write(message)
