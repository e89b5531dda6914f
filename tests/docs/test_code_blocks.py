"""Every Python block in the docs is run, as a program of its own, against a server with a topic
`orders`, and with a schema registry.

What a page's earlier blocks define a later one may use, if they run no event loop and end by
themselves; `await` may stand outside of functions. A comment in the line above a block says how a
block that does not end by itself is ended:

    <!-- stopped by SIGTERM -->

once it has printed something; it has to end well then too. Or it names an optional package, without
which the block is skipped:

    <!-- needs opentelemetry -->

A block of tests is run by pytest with the plugin of Kohort, and may need a package, too:

    <!-- run by pytest, needs aiokafka -->
"""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from docs.blocks import Block, run_by
from kohort.protocol.batches import Record, build
from kohort.server.broker import Broker
from kohort.server.config.config import Config
from kohort.types import Instant
from peers.schema_registry import SchemaRegistryStandIn
from testing.plain_pytest import run_pytest

ADDRESSES = ("localhost:9092", "127.0.0.1:9092")
REGISTRY = "http://localhost:8081"
RUNNER = """
import ast, asyncio, inspect, sys
from kohort.util.kio import import_kio
import_kio()  # without Hypothesis, which a reader of the docs does not import either
code = compile(open(sys.argv[1]).read(), sys.argv[1], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
result = eval(code, {"__name__": "__main__"})
if inspect.iscoroutine(result):
    asyncio.run(result)
"""
STOPPED = "stopped by SIGTERM"
TESTED = "run by pytest"
NEEDS = "needs "
SECONDS = 120


def programs() -> Iterator[tuple[Block, str]]:
    """Each block, with the page's earlier blocks that define things."""
    page, before = "", ""
    for block in run_by(__file__):
        if block.page != page:
            page, before = block.page, ""
        yield block, before
        runs = ("asyncio.run(", "await ", "async with")
        if block.how is None and not any(each in block.code for each in runs):
            before += block.code


@pytest.mark.parametrize(
    ("block", "before"), [pytest.param(*each, id=str(each[0])) for each in programs()]
)
async def test_every_python_block_of_the_docs_runs(
    block: Block, before: str, tmp_path: Path
) -> None:
    is_tested = (block.how or "").startswith(TESTED)
    how = (block.how or "").removeprefix(TESTED).removeprefix(", ") or STOPPED
    assert how == STOPPED or how.startswith(NEEDS), f"{block}: {how!r} is no way to end a block"
    package = how.removeprefix(NEEDS)
    if how != STOPPED and find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    if is_tested:
        (tmp_path / "test_block.py").write_text(block.code)
        exit_code, output = await asyncio.to_thread(run_pytest, tmp_path)
        assert exit_code == 0, f"{block} failed:\n{output}"
        return
    settings = {
        "listeners": "127.0.0.1:0",
        "storage": "memory",
        "group.initial.rebalance.delay.ms": "0",
    }
    if REGISTRY in block.code:
        pytest.importorskip("fastavro", reason="pip install 'kohort[registry]'")
    async with Broker(Config(settings)) as broker:
        fill(broker)
        program = tmp_path / "program.py"
        code = at_address(before + block.code, str(broker.address))
        with SchemaRegistryStandIn() as registry:
            program.write_text(code.replace(REGISTRY, registry.url))
            said = await run(program, block.how)
    assert said == "", f"{block} failed:\n{said}"


def at_address(code: str, address: str) -> str:
    for named in ADDRESSES:
        code = code.replace(named, address)
    return code


def fill(broker: Broker) -> None:
    """Topic `orders` with four partitions of 25 records."""
    now = Instant(1_700_000_000_000)
    for number, log in enumerate(broker.controller.topics.create("orders", 4).partitions):
        log.append(
            build([Record(None, b"%d" % (number * 25 + at), (), now) for at in range(25)]), now
        )


async def run(program: Path, how: str | None) -> str:
    """What the program said on its stderr if it failed, else nothing."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        RUNNER,
        str(program),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=program.parent,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SECONDS):
            if how == STOPPED and await process.stdout.readline():
                process.send_signal(signal.SIGTERM)
            _, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        _, errors = await process.communicate()
        return f"it did not end within {SECONDS} s\n{errors.decode()}"
    return errors.decode() + f"exit code {process.returncode}" if process.returncode else ""
