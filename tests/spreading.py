"""Distribution of tests over the workers of pytest-xdist: `pytest -n 2`.

A unit goes to one worker as a whole. A unit is a file, because fixtures of a module cost seconds.
Exceptions make units smaller or larger:

- Files in `SINGLE` share nothing but session fixtures, so each of their tests is a unit.
- Tests on one site, a broker of `tests/live`, are one unit across files.
- Tests of `SPARK` are one unit, because one session of Spark and one Apache Kafka serve all. Files
  of `WITHOUT_SESSION` need no Spark, or start their own: each is a unit, but their tests on Apache
  Kafka are one, because one Apache Kafka serves all.

Units of `FIRST` start before all others, because they take longest.
"""

import re

import pytest
from xdist.scheduler import LoadScopeScheduling

SINGLE = (
    "tests/docs/test_code_blocks.py",
    "tests/interop/test_groups.py",
    "tests/interop/test_leaders.py",
    "tests/interop/test_static_members.py",
)
SPARK = ("tests/spark/", "tests/demo/test_spark_show.py", "tests/interop/test_spark.py")
WITHOUT_SESSION = re.compile(
    r"tests/spark/test_(cluster|command|connect|docs|exactly_once_writing|fetching|java|logs"
    r"|membership|offset_queries|options|pipeline|racks|ranges|read_schema|topic_errors|topic_ids"
    r"|transactional_sink|versions|workers|writing)\.py"
)
FIRST = ("tests/spark/", "tests/live/", "tests/conformance/test_kohort.py", "tests/interop/")
SITE = re.compile(r"tests/live/.*\[.*?(kohort|kafka-[\d.]+)")


def unit(nodeid: str) -> str:
    """The unit that a test belongs to."""
    file = nodeid.partition("::")[0]
    if WITHOUT_SESSION.fullmatch(file):
        return "spark's requests to kafka" if "[kafka" in nodeid else file
    if file.startswith(SPARK):
        return "spark"
    if site := SITE.match(nodeid):
        return f"site {site[1]}"
    return nodeid if file in SINGLE else file


def rank(nodeid: str) -> int:
    """Where a test's unit stands in the order of the run; tests of one rank keep their order."""
    return next((at for at, start in enumerate(FIRST) if nodeid.startswith(start)), len(FIRST))


class Spreading(LoadScopeScheduling):
    """xdist's scheduler for units of several tests, with the units of this module."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)


def scheduler(config: pytest.Config, log: object) -> Spreading:
    """The scheduler for a run, which takes the units in the order of collection."""
    config.option.loadscopereorder = False
    return Spreading(config, log)
