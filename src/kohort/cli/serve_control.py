"""`kohort serve --dev --control`: brokers that a test controls by HTTP."""

import argparse
import logging
import os
import signal
from queue import SimpleQueue
from typing import Final

from kohort.cli.options import RefusedError
from kohort.errors import KohortError
from kohort.server.addresses import Address, cannot_listen, is_loopback, parse_address
from kohort.server.config import Config
from kohort.server.logging import fields
from kohort.testing.control.brokers import Brokers
from kohort.testing.control.http_api import ControlApi

logger = logging.getLogger("kohort.serve")

FLAG: Final = "--control"
_STOPPING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve_control(config: Config, options: argparse.Namespace) -> int:
    """Serve until a signal comes; the exit code. Raises RefusedError."""
    address = _address(config, options)
    signals = _signals()
    brokers = Brokers()
    try:
        first = brokers.start_broker(_settings(config))
        api = ControlApi(brokers, address)
    except OSError as error:
        raise RefusedError(cannot_listen(address, error, FLAG)) from error
    except KohortError as error:
        raise RefusedError(str(error)) from error
    logger.info("listening", extra=fields(address=first.bootstrap, control=str(api.address)))
    signals.get()
    api.close()
    brokers.close()
    logger.info("stopped")
    return 0


def _address(config: Config, options: argparse.Namespace) -> Address:
    if not options.dev:
        raise RefusedError(f"{FLAG} is for tests only, as it has no authentication: add --dev")
    if config.workers > 1 or config["storage"] not in ("local", "memory"):
        raise RefusedError(f"{FLAG} controls one process with --memory or --data")
    try:
        address = parse_address(options.control)
    except ValueError as error:
        raise RefusedError(f"{FLAG}: {error}") from error
    if not is_loopback(address.host) and not config["insecure"]:
        raise RefusedError(
            f"{FLAG}: everybody who reaches {address} can do everything; use 127.0.0.1, or say "
            "--insecure inside of a container whose port is published on 127.0.0.1 only"
        )
    return address


def _settings(config: Config) -> dict[str, object]:
    """The settings that were given, and the port of `kohort serve`; others are those for tests."""
    given = {raw.name: raw.value for raw in sorted(config.static, key=lambda raw: raw.rank)}
    return {"listeners": config["listeners"], **given}


def _signals() -> SimpleQueue[int]:
    """Gets the first SIGTERM, SIGINT or SIGHUP; the second one ends the process."""
    received: SimpleQueue[int] = SimpleQueue()  # its `put` may interrupt its `get`

    def stop(first: int, _: object) -> None:
        for number in _STOPPING:
            signal.signal(number, lambda second, _: os._exit(128 + second))
        received.put(first)

    for number in _STOPPING:
        signal.signal(number, stop)
    return received
