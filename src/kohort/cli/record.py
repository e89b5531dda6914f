"""Record the traffic between clients and any Kafka to a file, as a proxy.

Clients use the address of --listen as their bootstrap server. Ports of the proxy stand for all
brokers, so every connection of the clients comes through it. The file has one event a line, and
`kohort replay` replays it. It has no secrets: SASL tokens, salted passwords, delegation tokens and
values of secret configs are removed. SIGINT or SIGTERM ends the recording.

    kohort record orders.jsonl --listen 127.0.0.1:9093 --to kafka.example:9092
"""

import argparse
import asyncio
import time
from pathlib import Path

from kohort.cli.client_options import add_client_arguments, client_config, run_to_exit_code
from kohort.cli.options import RefusedError
from kohort.cli.output import print_message
from kohort.cli.signals import stop_on_signal
from kohort.client.config import ClientConfig
from kohort.errors import KohortError
from kohort.recording import Proxy, Recorder, RecordingError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="file to create")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:9093",
        help="address for clients; port 0 takes a free one (default: 127.0.0.1:9093)",
    )
    parser.add_argument(
        "--to", dest="bootstrap", metavar="HOST:PORT,…", help="another name of --bootstrap"
    )
    parser.add_argument(
        "--redact-values",
        action="store_true",
        help="replace keys, values and header values of records by pseudonyms of the same length",
    )
    add_client_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    config = client_config(options)
    if config.security.is_sasl:
        raise RefusedError(
            "SASL is not for the proxy: clients authenticate themselves with the brokers through "
            "it; leave out the SASL properties, and use security.protocol=SSL if brokers have TLS"
        )
    return run_to_exit_code(_record(options, config, _parsed(options.listen)))


def _parsed(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise RefusedError(f"--listen {text}: is not HOST:PORT, such as 127.0.0.1:9093")
    return host.strip("[]"), int(port)


async def _record(
    options: argparse.Namespace, config: ClientConfig, listen: tuple[str, int]
) -> int:
    stop = stop_on_signal()
    try:
        recorder = Recorder(options.file, time.monotonic, redact_values=options.redact_values)
    except RecordingError as error:
        raise RefusedError(str(error)) from error
    with recorder:
        await _forward_until(
            stop, Proxy(listen, config.servers, recorder, tls=config.security.context())
        )
    print_message(
        f"recorded {recorder.requests} requests of {recorder.connections} connections to "
        f"{options.file}"
    )
    return 0


async def _forward_until(stop: asyncio.Event, proxy: Proxy) -> None:
    """Raises RefusedError, and RecordingError if the file cannot be written any more."""
    try:
        await proxy.__aenter__()
    except KohortError as error:
        proxy.recorder.path.unlink()
        raise RefusedError(str(error)) from error
    stopped = asyncio.create_task(stop.wait())
    try:
        host, port = proxy.address
        print_message(f"recording; bootstrap server for clients: {host}:{port}")
        await asyncio.wait((stopped, proxy.failure), return_when=asyncio.FIRST_COMPLETED)
        if proxy.failure.done():
            raise RecordingError(proxy.failure.result())
    finally:
        stopped.cancel()
        await proxy.__aexit__()
