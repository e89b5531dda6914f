"""`kohort serve`: one server, from the command to a clean end."""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable

import typer

from kohort.cli import options
from kohort.errors import KohortError
from kohort.server.broker import Broker
from kohort.server.config import Config
from kohort.server.logs import configure, fields

app = typer.Typer(pretty_exceptions_enable=False)
logger = logging.getLogger("kohort.serve")


@app.command()
def serve(
    listen: options.Listen = None,
    advertise: options.Advertise = None,
    data: options.Data = None,
    memory: options.Memory = False,
    dev: options.Dev = False,
    durability: options.Durability = None,
    http: options.Http = None,
    insecure: options.Insecure = False,
    file: options.File = None,
    sets: options.Sets = None,
    log_format: options.LogFormat = None,
    log_level: options.LogLevel = None,
) -> None:
    """Serve Kafka's protocol: topics, and consumer groups that any Kafka client can join.

    SIGTERM and SIGINT end it cleanly, with exit code 0; a second one ends it at once.
    """
    config = options.load_config_or_exit(
        listen=listen, advertise=advertise, data=data, memory=memory, dev=dev, durability=durability,
        http=http, insecure=insecure, file=file, sets=sets or (), log_format=log_format, log_level=log_level,
    )  # fmt: skip
    configure(config["logging.format"], config["logging.level"])
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        code = runner.run(run_until_stopped(config))
    raise typer.Exit(code)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed, else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def run_until_stopped(config: Config) -> int:
    """Serve until a signal comes; the exit code."""
    stop = _Stop()
    broker = Broker(config)
    try:
        await broker.start()
    except KohortError as error:
        print(f"kohort: {error}", file=sys.stderr)
        return options.REFUSED
    _announce(broker)
    await stop.asked.wait()
    await broker.close()
    logger.info("stopped", extra=fields(after_ms=stop.elapsed_ms()))
    return 0


def _announce(broker: Broker) -> None:
    where = broker.config["log.dir"] if broker.config["storage"] == "local" else "memory"
    told = {"advertised": broker.advertised} if broker.advertised != broker.address else {}
    http = {} if broker.http_address is None else {"http": broker.http_address}
    logger.info(
        "listening",
        extra=fields(address=broker.address, **told, **http, data=where, cluster=broker.cluster_id, after_ms=_age_ms()),
    )


class _Stop:
    """The first SIGTERM or SIGINT asks for a clean end, the second ends the process."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self._when: float | None = None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ask, number)

    def _ask(self, number: signal.Signals) -> None:
        if self._when is not None:
            os._exit(128 + number)
        self._when = time.monotonic()
        self.asked.set()

    def elapsed_ms(self) -> int:
        """Since the signal."""
        return 0 if self._when is None else int((time.monotonic() - self._when) * 1000)


def _age_ms() -> int:
    """How long ago this process was started, to the 10 ms that Linux tells; since the first import elsewhere."""
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as stat:
            ticks = int(stat.read().rpartition(")")[2].split()[19])
        started = ticks / os.sysconf("SC_CLK_TCK")
        return int((time.clock_gettime(time.CLOCK_BOOTTIME) - started) * 1000)
    except (OSError, ValueError, AttributeError, IndexError):
        return int(time.process_time() * 1000)
