"""A worker of `kohort serve --workers`; no command for people.

Its parent sends the assignment by standard input, and closes that to end the worker.
"""

import asyncio
import gc
import signal
import socket
import sys
from pathlib import Path

# Ctrl-C ends the imports without a traceback. The parent has blocked it until here.
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

gc.disable()  # until all is imported, as in `kohort.cli`

from kohort.util.kio import import_kio  # noqa: E402

import_kio()  # before anything else imports kio

from kohort.cli import collect_garbage  # noqa: E402
from kohort.cli.options import REFUSED, RefusedError  # noqa: E402
from kohort.cli.serve import (  # noqa: E402
    FAILED,
    Stop,
    close,
    first,
    loop_factory,
    new_broker,
    reduce_garbage_collection,
    start_unless_stopped,
)
from kohort.log.worker_directories import ensure_there  # noqa: E402
from kohort.server.broker import Broker  # noqa: E402
from kohort.server.logging import configure  # noqa: E402
from kohort.server.net import raise_limit  # noqa: E402
from kohort.server.supervisor import (  # noqa: E402
    ALIVE,
    ALIVE_INTERVAL_S,
    END_UNSTARTED,
    ENDING,
    MAX_LINE,
    RELOAD,
    WorkerReport,
    WorkerSetup,
)

collect_garbage()


async def run() -> int:
    """Serve until the parent or a signal ends it; the exit code."""
    reader, writer = await asyncio.open_unix_connection(
        sock=socket.socket(fileno=sys.stdin.fileno()), limit=MAX_LINE
    )
    line = await reader.readline()
    if not line:
        return 0  # the parent has ended
    signal.signal(END_UNSTARTED, signal.SIG_IGN)  # from here on the worker ends cleanly
    sending_heartbeats = asyncio.create_task(_send_heartbeats(writer))
    setup = WorkerSetup.decode(line)
    config = setup.config
    configure(config["logging.format"], config["logging.level"], config["node.id"])
    stop = Stop()
    try:
        broker = new_broker(config, setup.worker)
    except RefusedError as refusal:
        _send(writer, WorkerReport(refused=str(refusal)).encode())
        return REFUSED
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, broker.reload_files)
    reduce_garbage_collection()
    executing = asyncio.create_task(_execute_commands(reader, broker, stop))
    try:
        if not await start_unless_stopped(_start(broker), stop):
            return 0
    except RefusedError as refusal:
        _send(writer, WorkerReport(refused=str(refusal)).encode())
        return REFUSED
    gc.freeze()  # objects of the start live as long as the worker
    _send(writer, _report(broker).encode())
    await first(stop.requested, broker.lost)
    executing.cancel()
    sending_heartbeats.cancel()
    _send(writer, ENDING)
    return 0 if await close(broker) and not broker.lost.is_set() else FAILED


async def _start(broker: Broker) -> None:
    """Start, unless the worker's earlier data is missing. Raises KohortError."""
    if broker.config["storage"] == "local":
        ensure_there(Path(broker.config["log.dir"]))
    await broker.start()


def _report(broker: Broker) -> WorkerReport:
    return WorkerReport(
        addresses={name: str(address) for name, address in broker.addresses.items()},
        advertised=str(broker.advertised),
        cluster_id=broker.cluster_id,
    )


def _send(writer: asyncio.StreamWriter, line: bytes) -> None:
    """Send a line to the parent. No-op after the parent has exited."""
    if not writer.is_closing():  # uvloop raises RuntimeError for a transport that is closed
        writer.write(line)


async def _send_heartbeats(writer: asyncio.StreamWriter) -> None:
    """Report to the parent, at an interval, that the event loop runs."""
    while True:
        _send(writer, ALIVE)
        await asyncio.sleep(ALIVE_INTERVAL_S)


async def _execute_commands(reader: asyncio.StreamReader, broker: Broker, stop: Stop) -> None:
    """Execute commands of the parent until it closes the connection."""
    try:
        while await reader.readline() == RELOAD:
            broker.reload_files()
    except OSError:
        pass
    stop.request()


def main() -> int:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a terminal that is closed ends the parent
    raise_limit()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(run())


if __name__ == "__main__":
    sys.exit(main())
