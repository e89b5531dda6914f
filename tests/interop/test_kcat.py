"""kcat without a group: metadata, offsets by time, ranges of times; `-G -e`; transactions."""

import json
import subprocess
import time
from dataclasses import dataclass

import pytest

from interop.conftest import need
from interop.roster import named
from interop.targets import Target
from interop.trial import NUMBERS, RUN

pytestmark = pytest.mark.interop

EARLY, LATE = b"k1:v1\nk2:v2\nk3:v3\n", b"k4:v4\nk5:v5\n"


@dataclass
class Filled:
    """A topic with records from before and after a time."""

    address: str
    topic: str
    between: int
    """ms since the epoch"""

    def kcat(self, *words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = ["kcat", "-b", self.address, *words]
        return subprocess.run(command, input=data, capture_output=True, timeout=60, check=False)

    def printed(self, *words: str, data: bytes = b"") -> str:
        done = self.kcat(*words, data=data)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()


@pytest.fixture(scope="module")
def filled(target: Target) -> Filled:
    need(named("kcat"))
    filled = Filled(target.address, f"kcat-{RUN}-{next(NUMBERS)}", 0)
    filled.printed("-P", "-t", filled.topic, "-K:", "-H", "a=1", data=EARLY)
    time.sleep(0.02)  # timestamps are in ms
    filled.between = time.time_ns() // 1_000_000
    time.sleep(0.02)
    filled.printed("-P", "-t", filled.topic, "-K:", "-z", "lz4", data=LATE)
    return filled


def test_metadata_is_listed(filled: Filled) -> None:
    """`-L`, `-L -J`."""
    assert f'topic "{filled.topic}" with 1 partitions' in filled.printed("-L", "-t", filled.topic)
    told = json.loads(filled.printed("-L", "-J", "-t", filled.topic))
    assert [each["name"] for each in told["brokers"]] == [filled.address]
    assert told["topics"][0]["partitions"][0]["leader"] == told["controllerid"]


def test_offsets_are_queried(filled: Filled) -> None:
    """`-Q` by time, of the beginning and the end."""
    for when, offset in ((filled.between, 3), (-2, 0), (-1, 5)):
        said = filled.printed("-Q", "-t", f"{filled.topic}:0:{when}")
        assert said == f"{filled.topic} [0] offset {offset}\n"


def test_a_range_of_times_is_read(filled: Filled) -> None:
    """`-C` with `-o s@` and `-o e@`."""
    read = ("-C", "-t", filled.topic, "-e", "-q", "-f", "%k=%s %h\n")
    late, early = f"s@{filled.between}", f"e@{filled.between}"
    assert filled.printed(*read, "-o", late) == "k4=v4 \nk5=v5 \n"
    assert filled.printed(*read, "-o", "s@1", "-o", early) == "k1=v1 a=1\nk2=v2 a=1\nk3=v3 a=1\n"


def test_a_group_goes_on_where_it_ended(filled: Filled) -> None:
    """`-G` with `-e`, twice."""
    group = ("-G", f"{filled.topic}-group", "-e", "-q", "-X", "auto.offset.reset=earliest")
    assert filled.printed(*group, filled.topic).split() == ["v1", "v2", "v3", "v4", "v5"]
    assert filled.printed(*group, filled.topic) == ""


def test_a_transaction_is_committed(filled: Filled) -> None:
    """`-X transactional.id`."""
    done = filled.kcat("-P", "-t", filled.topic, "-K:", "-X", "transactional.id=some", data=LATE)
    assert done.returncode == 0
    read = ("-C", "-t", filled.topic, "-e", "-q", "-f", "%s ", "-o", "5")
    assert filled.printed(*read, "-X", "isolation.level=read_committed").split() == ["v4", "v5"]
