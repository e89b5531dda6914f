"""The start of a command: its imports are not looked through for garbage."""

import subprocess
import sys

import pytest

COUNT = """
import gc, sys
collected = []
def count(*_):
    if "kohort.errors" in sys.modules:  # what precedes is Python's own
        collected.append(len(sys.modules))
gc.callbacks.append(count)
"""
COMMAND = """
import importlib
from kohort.cli import main
import_module = importlib.import_module
def imported(name):
    module = import_module(name)
    assert name != "kohort.cli.serve" or not collected, collected
    return module
importlib.import_module = imported
sys.argv = ["kohort", "serve", "--help"]
try:
    main()
except SystemExit:
    pass
"""
WORKER = """
import kohort.cli.worker
assert not collected, collected
"""


@pytest.mark.parametrize("start", [COMMAND, WORKER], ids=["a command", "a worker"])
def test_garbage_is_collected_from_the_end_of_the_imports_on(start: str) -> None:
    end = "assert 'kohort.server.broker' in sys.modules and gc.isenabled()\n"
    subprocess.run([sys.executable, "-c", COUNT + start + end], check=True, timeout=120)
