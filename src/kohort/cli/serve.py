"""Run a Kafka-compatible server.

SIGTERM and SIGINT stop the server cleanly, with exit code 0; a second one stops it immediately.
SIGHUP reloads keys and certificates, and reopens the audit log.
"""

import argparse
import asyncio
import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.cli import options as cli_options
from kohort.errors import KohortError
from kohort.log import directory_format
from kohort.log.directory_errors import unusable_directory
from kohort.server.broker import Broker
from kohort.server.cluster import Worker
from kohort.server.config import Config, storage_without_secrets
from kohort.server.logging import configure, fields
from kohort.server.net import raise_limit, warn_of_low_limit

if TYPE_CHECKING:
    from kohort.server.supervisor import Supervisor

logger = logging.getLogger("kohort.serve")

CONTROL_ADDRESS = "127.0.0.1:9099"
"""Address of the control API, unless the flag has another one."""
FAILED = 1
"""Exit code when the server ran, and something was lost."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    cli_options.add_arguments(parser)
    parser.add_argument(
        "--control",
        metavar="HOST:PORT",
        nargs="?",
        const=CONTROL_ADDRESS,
        help="with --dev: HTTP API for tests, which controls clients, time and faults "
        f"(default: {CONTROL_ADDRESS})",
    )


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    config = cli_options.load_config(options)
    configure(config["logging.format"], config["logging.level"])
    try:
        raise_limit()
    except KohortError as error:
        raise cli_options.RefusedError(str(error)) from error
    warn_of_low_limit()
    _warn_of_ignored_settings(config)
    if options.control is not None:
        from kohort.cli.serve_control import serve_control  # few servers need it

        return serve_control(config, options)
    if config.workers > 1:
        return asyncio.run(supervise(config))
    _gather_data(config)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(run_until_stopped(config))


def _warn_of_ignored_settings(config: Config) -> None:
    """Warn of settings that have no effect."""
    if not config.setting("cluster.enabled").is_default:
        logger.warning(
            "setting has no effect: a server on PostgreSQL is always a cluster node",
            extra=fields(setting="cluster.enabled"),
        )


def _gather_data(config: Config) -> None:
    """Move the logs of several workers into one data directory. Raises RefusedError."""
    if config["storage"] == "local":
        try:
            contents = directory_format.examine(Path(config["log.dir"]))
            if contents is not None and contents.workers != 1:
                from kohort.server.supervisor import spread_data  # few servers need it

                spread_data(config)
        except KohortError as error:
            raise cli_options.RefusedError(str(error)) from error
        except OSError as error:
            raise cli_options.RefusedError(
                unusable_directory(Path(config["log.dir"]), error)
            ) from error


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop if it is installed, else None for asyncio's."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def run_until_stopped(config: Config) -> int:
    """Serve until a signal comes; the exit code. Raises RefusedError."""
    stop = Stop()
    broker = new_broker(config)
    handle_hangup(config, broker.reload_files, stop)
    reduce_garbage_collection()
    if not await start_unless_stopped(broker.start(), stop):
        logger.info("stopped during startup", extra=fields(after_ms=stop.elapsed_ms()))
        return 0
    gc.freeze()  # objects of the start live as long as the server
    _announce(broker)
    await first(stop.requested, broker.lost)
    if not await close(broker):
        return FAILED
    logger.info("stopped", extra=fields(after_ms=stop.elapsed_ms()))
    return FAILED if broker.lost.is_set() else 0


def new_broker(config: Config, worker: Worker | None = None) -> Broker:
    """The server of this process. Raises RefusedError if a package is missing."""
    try:
        return Broker(config, worker=worker)
    except KohortError as error:
        raise cli_options.RefusedError(str(error)) from error


def handle_hangup(config: Config, reload: Callable[[], None], stop: "Stop") -> None:
    """On SIGHUP, reload files. Without reloadable files, stop cleanly, as when a terminal closes.

    With `nohup`, SIGHUP stays ignored.
    """
    if config.has_reloadable_files:
        on_hangup = reload
    elif signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return
    else:
        on_hangup = stop.request
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_hangup)


async def first(*events: asyncio.Event) -> None:
    """Return when one of the events is set."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


async def close(broker: Broker) -> bool:
    """Close the server; False if something did not reach the disk, which is logged."""
    try:
        await broker.close()
    except OSError:
        logger.exception("stopped without syncing all logs; the next start checks them")
        return False
    return True


async def supervise(config: Config) -> int:
    """Serve by several workers until a signal comes; the exit code. Raises RefusedError."""
    from kohort.server.supervisor import Supervisor  # few servers need it

    async with Supervisor(config) as supervisor:
        stop = Stop(at_second=supervisor.kill)
        handle_hangup(config, supervisor.reload_files, stop)
        if not await start_unless_stopped(supervisor.start(), stop):
            await supervisor.stop()
            logger.info("stopped during startup", extra=fields(after_ms=stop.elapsed_ms()))
            return 0
        _announce_workers(config, supervisor)
        await stop.requested.wait()
        if await supervisor.stop():
            logger.error("stopped, but a worker did not stop cleanly")
            return FAILED
        logger.info("stopped", extra=fields(after_ms=stop.elapsed_ms()))
        return 0


async def start_unless_stopped(start: Coroutine[Any, Any, None], stop: "Stop") -> bool:
    """Await `start`; False if a stop was requested before it ended, which cancels it.

    Raises RefusedError.
    """
    starting = asyncio.ensure_future(start)
    stop_requested = asyncio.ensure_future(stop.requested.wait())
    await asyncio.wait((starting, stop_requested), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
    stop_requested.cancel()
    try:
        await starting
    except asyncio.CancelledError:
        return False
    except KohortError as error:
        raise cli_options.RefusedError(str(error)) from error
    return True


def reduce_garbage_collection() -> None:
    """Run the garbage collector less often.

    It finds little: the objects of a request are in no cycle when its response is sent
    (`tests/server/test_refused_memory.py`). Only libraries and faults leave cycles. But it would
    traverse committed offsets and members again and again. `python -m benchmarks.collector`
    measures commits of a hundred partitions at Python's thresholds, at these, and without it. A
    collection of generation 0 takes up to 3 ms. One of generation 1, after a large request or joins
    of many members, takes up to 11 ms (23 ms on a busy machine). The thresholds must not be much
    higher, because no request may wait longer than 50 ms.
    """
    gc.set_threshold(10_000, 2, 2_500)


def _announce(broker: Broker) -> None:
    advertised = (
        {"advertised": str(broker.advertised)} if broker.advertised != broker.address else {}
    )
    http = {} if broker.http_address is None else {"http": str(broker.http_address)}
    logger.info(
        "listening",
        extra=fields(
            address=str(broker.address),
            **advertised,
            **_further(broker.addresses),
            **http,
            data=_place(broker.config),
            cluster=broker.cluster_id,
            after_ms=_age_ms(),
        ),
    )


def _announce_workers(config: Config, supervisor: "Supervisor") -> None:
    first, *others = supervisor.reports
    address = next(iter(first.addresses.values()))
    named = _further(first.addresses)
    if first.advertised != address:
        named["advertised"] = first.advertised
    if supervisor.http_address is not None:
        named["http"] = str(supervisor.http_address)
    logger.info(
        "listening",
        extra=fields(
            address=address,
            **named,
            others=[next(iter(worker.addresses.values())) for worker in others],
            workers=len(supervisor.reports),
            data=_place(config),
            cluster=first.cluster_id,
            after_ms=_age_ms(),
        ),
    )


def _place(config: Config) -> str:
    """Data directory or masked URL of the storage."""
    storage = config["storage"]
    return str(config["log.dir"]) if storage == "local" else storage_without_secrets(storage)


def _further(addresses: Mapping[str, object]) -> dict[str, object]:
    """The field with the listeners after the first one."""
    named = [f"{name}://{address}" for name, address in addresses.items()][1:]
    return {"further": named} if named else {}


class Stop:
    """The first SIGTERM or SIGINT requests a clean end, the second ends the process."""

    def __init__(self, at_second: Callable[[], None] = lambda: None) -> None:
        """`at_second` is called before the second signal ends the process."""
        self.requested = asyncio.Event()
        self._at_second = at_second
        self._has_signal = False
        self._when: float | None = None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        if self._has_signal:
            self._at_second()
            os._exit(128 + number)
        self._has_signal = True
        self.request()

    def request(self) -> None:
        """Request a clean end. Idempotent."""
        if self._when is None:
            self._when = time.monotonic()
            self.requested.set()

    def elapsed_ms(self) -> int:
        """Time since the request, in ms."""
        return 0 if self._when is None else int((time.monotonic() - self._when) * 1000)


def _age_ms() -> int:
    """Age of this process in ms, to the 10 ms of Linux; since the first import on other systems."""
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as stat:
            ticks = int(stat.read().rpartition(")")[2].split()[19])
        started = ticks / os.sysconf("SC_CLK_TCK")
        return int((time.clock_gettime(time.CLOCK_BOOTTIME) - started) * 1000)
    except (OSError, ValueError, AttributeError, IndexError):
        return int(time.process_time() * 1000)
