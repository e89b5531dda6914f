"""What Spark's Python processes load, and what their collector looks at between two tasks."""

import gc
import os
import pickle
import socket
import subprocess
import sys
import weakref
from contextlib import ExitStack
from types import ModuleType

import pytest

from kohort.spark import workers
from kohort.spark.batch import BatchReader
from kohort.spark.member_stream import MemberStreamReader
from kohort.spark.options import parse_read
from kohort.spark.stream import StreamReader
from kohort.spark.stream_writing import StreamWriter
from kohort.spark.writing import BatchWriter

TASKS = [BatchReader, StreamReader, MemberStreamReader, BatchWriter, StreamWriter]
OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"}

READS = """
import sys
from kohort.spark import KohortDataSource
from kohort.columnar import decode
from kohort.protocol import batches
from kohort.protocol.records import Record
record = Record(b"key", b"value", (("header", b"1"),), 1)
decode(batches.build([record], base_offset=0), topic="t", partition=0, include_headers=True)
print(*sys.modules)
"""


def test_a_task_loads_no_library_that_it_does_not_need() -> None:
    """Each of them takes longer than a small micro-batch: pyarrow would import pandas, kio
    Hypothesis.
    """
    done = subprocess.run([sys.executable, "-c", READS], capture_output=True, text=True, check=True)
    assert {"llvmlite", "pyspark"} <= set(done.stdout.split())
    assert not {"numba", "pandas", "hypothesis", "kohort.server"} & set(done.stdout.split())


@pytest.fixture
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "last_settled", None)
    gc.unfreeze()
    workers.settle()


@pytest.mark.usefixtures("_settled")
def test_objects_of_a_settled_worker_are_frozen_once() -> None:
    frozen = gc.get_freeze_count()
    assert frozen > 10_000
    later: list[list[int]] = [[] for _ in range(1000)]
    workers.settle()
    assert gc.get_freeze_count() <= frozen
    assert gc.is_tracked(later)


@pytest.mark.usefixtures("_settled")
def test_modules_imported_late_are_frozen_in_the_next_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = ModuleType("imported_late")
    module.__dict__["content"] = [[] for _ in range(1000)]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    frozen = gc.get_freeze_count()
    workers.settle()
    assert gc.get_freeze_count() >= frozen + 1000


@pytest.mark.usefixtures("_settled")
def test_garbage_of_later_is_collected_as_before() -> None:
    class Node:
        other: "Node"

    one, two = Node(), Node()
    one.other, two.other = two, one
    alive = weakref.ref(one)
    del one, two
    gc.collect()
    assert alive() is None


@pytest.mark.skipif(
    not hasattr(socket, "TCP_QUICKACK"), reason="Linux has this delay, and the cure"
)
def test_a_task_has_its_first_part_acknowledged_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as stack:
        ours = stack.enter_context(socket.create_connection(listening.getsockname()))
        theirs, _ = listening.accept()
        stack.enter_context(theirs)
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        open_before = len(os.listdir("/proc/self/fd"))
        reader = pickle.dumps(BatchReader(parse_read(OPTIONS, streaming=False)))
        assert isinstance(pickle.loads(reader), BatchReader)
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert len(os.listdir("/proc/self/fd")) == open_before


@pytest.mark.parametrize("kind", TASKS)
def test_every_object_that_tasks_receive_is_a_task_object(kind: type) -> None:
    assert issubclass(kind, workers.TaskObject)
