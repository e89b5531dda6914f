"""`delivery=exactly_once` of a query that its application starts again in the same session, as
often as it fails: processes beside the driver's JVM are killed at each step of a micro-batch.

As `test_exactly_once_chaos`, whose drivers are of one query. A start of Spark is dear, and here
there is one for all kills.
"""

import os
import signal
from contextlib import suppress
from itertools import islice

import pytest

from spark.processes import descendants, source_processes
from spark.test_exactly_once_chaos import KINDS, MODES, Chaos, drawn, show, struck

pytestmark = [pytest.mark.clients, pytest.mark.long, pytest.mark.timeout(28_800)]

STRIKES = ("process_dies", "source_dies", "workers_die", "server_dies", "is_an_error")
EVENTS = int(os.environ.get("KOHORT_SPARK_STRIKES", "60"))
"""Of each test; all pairs of a point and a strike are 60."""


class SessionChaos(Chaos):
    def start(self, place, **more):
        return super().start(place, restarts=True, **more)

    def strike(self, point, strike):
        assert self._stands_at(point)
        getattr(self, strike)(point)
        self.driver.points.disarm()
        self.reads_all_or_ends()
        assert self.is_running()
        self.outcomes[strike] += 1
        self.is_once_and_in_order()

    def process_dies(self, _):
        """The one at the point: the source, a task's, or that of the sink."""
        os.kill(self.driver.points.process(), signal.SIGKILL)

    def source_dies(self, _):
        self._kill(self._sources())

    def workers_die(self, _):
        jvm = self.driver.pids["jvm"]
        others = {each for source in self._sources() for each in descendants(source)}
        self._kill(set(descendants(jvm)) - others - {jvm})

    def _sources(self):
        return source_processes(self.driver.pids["jvm"])

    def _kill(self, processes):
        for each in processes:
            with suppress(ProcessLookupError):  # it ends with the query that has just failed
                os.kill(each, signal.SIGKILL)

    def is_an_error(self, _):
        self.driver.points.fail()


@KINDS
@MODES
def test_every_record_is_there_once_and_in_order(kind, mode, tmp_path, java):
    with struck(kind, tmp_path, mode, SessionChaos) as chaos:
        for point, strike in islice(drawn(chaos.random, STRIKES), EVENTS):
            show(strike, point)
            chaos.strike(point, strike)
