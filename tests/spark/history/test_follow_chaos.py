"""`kohort history build --follow`, killed again and again while a group commits: no row is lost or
doubled.
"""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from spark.history.test_command import snapshot, tables
from spark.history.test_sources import commit
from spark.servers import KohortServer
from spark.streams import PROGRAM_S, wait_for
from spark.topics import Topics

pytestmark = [pytest.mark.clients, pytest.mark.long, pytest.mark.timeout(6 * PROGRAM_S)]

KILLS = int(os.environ.get("KOHORT_HISTORY_STRIKES", "5"))


@pytest.fixture
def server(java, tmp_path):
    server = KohortServer(tmp_path)
    yield server
    server.stop()


def command(server, out, *options):
    words = [server.address, "--out", str(out), "--master", "local[2]", *options]
    return subprocess.Popen(
        [sys.executable, "-m", "kohort", "history", "build", *words],
        stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip


def test_a_stream_that_is_killed_again_and_again_loses_and_doubles_nothing(server, tmp_path):
    topics, out = Topics(server.address), tmp_path / "out"
    topics.create("orders", 3)
    chosen = random.Random(7)
    for strike in range(KILLS):
        commit(topics, f"group-{strike}", strike)
        before = snapshot(out).id if (out / "_history.json").exists() else 0
        process = command(server, out, "--follow", "--every", "100 milliseconds")
        wait_for(
            lambda before=before: (out / "_history.json").exists() and snapshot(out).id > before,
            "a batch is visible",
            within_s=PROGRAM_S,
        )
        commit(topics, f"group-{strike}", strike + 1)
        time.sleep(chosen.random())
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=PROGRAM_S)
    for directory in (out, tmp_path / "one"):
        process = command(server, directory)
        assert process.communicate(timeout=PROGRAM_S) is not None
        assert process.returncode == 0
    found, expected = tables(out), tables(tmp_path / "one")
    samples = found.pop("samples")
    assert len(set(samples)) == len(samples)
    assert expected.pop("samples"), "of other times"
    assert found == expected
