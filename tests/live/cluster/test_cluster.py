"""Each fault of a cluster once under real clients, and proof that a violation would be found."""

import random
from struct import pack

import pytest

from interop.programs import java_missing
from live.chaos.bank import SETTINGS, Bank
from live.chaos.run import GROUP_LOG
from live.cluster import bank
from live.cluster.checks import check_batches
from live.cluster.programs import check_fed
from live.cluster.run import ClusterRun
from live.cluster.take_overs import TakeOvers
from live.cluster.target import ClusterTarget
from peers.postgres import Postgres, PostgresUnavailableError, programs

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def installed() -> None:
    try:
        programs()
    except PostgresUnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.clients
def test_each_fault_loses_nothing(tmp_path):
    run = ClusterRun(tmp_path, seed=random.randrange(1 << 32))
    outcome = run.run()
    print(outcome)
    assert not outcome.violations, (outcome, outcome.violations)


@pytest.mark.clients
def test_faults_lose_no_money(tmp_path):
    if reason := java_missing():
        pytest.skip(reason)
    pytest.importorskip("trio")
    seed = random.randrange(1 << 32)
    target = ClusterTarget(tmp_path, topics=bank.TOPICS, seed=seed, settings=SETTINGS)
    try:
        outcome = Bank(target, tmp_path, kills=4, seed=seed).run()
        violations = [*outcome.violations, *target.check()]
    finally:
        target.stop()
    print(outcome)
    assert not violations
    assert outcome.transfers


@pytest.mark.clients
@pytest.mark.parametrize(
    "locks",
    [pytest.param(True, marks=pytest.mark.long), False],
    ids=["a fence that locks", "without its lock"],
)
def test_nodes_that_are_replaced_while_they_live(tmp_path, locks):
    outcome = TakeOvers(tmp_path, seed=random.randrange(1 << 32), locks=locks).run()
    print(outcome)
    assert bool(outcome.violations) is not locks, (outcome, outcome.violations[:9])


LAST_THIRD = """
delete from batches using (
    select log, max(base) as last from batches join logs on id = log where topic = '{}' group by log
) as ends where batches.log = ends.log and base > last * 2 / 3
"""


@pytest.mark.clients
@pytest.mark.parametrize(
    ("topic", "found"),
    [
        (GROUP_LOG, "acknowledged commits are not"),
        pytest.param("kohort-plain", "acknowledged records", marks=pytest.mark.long),
    ],
)
def test_a_loss_is_found(tmp_path, topic, found):
    def lose() -> None:
        run.nodes.kill_all()
        run.database.primary.execute(LAST_THIRD.format(topic))
        run.nodes.start_all()

    run = ClusterRun(tmp_path, seed=1, kills=1, seconds=0)
    run.at_rest = lose
    outcome = run.run()
    assert any(found in each for each in outcome.violations), outcome.violations


TABLES = """
create temporary table logs (id int, topic text, partition int);
create temporary table batches (log int, base bigint, next bigint, epoch int, data bytea);
insert into logs values (1, 'orders', 0), (2, '__cluster_metadata', 0);
"""


class Tables:
    """Of batches, with columns that are checked."""

    def __init__(self, postgres: Postgres, *batches: tuple[int, ...]) -> None:
        """`batches`: log, base, next, leader epoch; producer id, its epoch, sequence."""
        self._postgres = postgres
        rows = [f"({log}, {base}, {end}, {epoch}, '{_data(*by)}')"
                for log, base, end, epoch, *by in batches]  # fmt: skip
        self._batches = ", ".join(rows)

    def execute(self, query: str) -> list[str]:
        return self._postgres.execute(TABLES, f"insert into batches values {self._batches}", query)


def _data(producer_id: int = -1, producer_epoch: int = -1, sequence: int = -1) -> str:
    return "\\x" + (bytes(43) + pack(">qhi", producer_id, producer_epoch, sequence)).hex()


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        ([(1, 0, 2, 0), (1, 2, 3, 0), (1, 3, 9, 2)], 0),
        ([(1, 0, 2, 0), (1, 3, 4, 0)], 1),
        ([(1, 0, 2, 0), (1, 1, 4, 0)], 1),
        ([(1, 0, 2, 1), (1, 2, 4, 0)], 1),
        ([(2, 0, 2, 0), (2, 7, 9, 0)], 0),
    ],
    ids=["in order", "a gap", "twice", "an earlier leader", "a compacted log"],
)
def test_batches_out_of_order_are_found(postgres, batches, found):
    assert len([*check_batches(Tables(postgres, *batches))]) == found


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        ([(2, 7, 0, 0), (3, 8, 0, 0), (5, 7, 0, 2), (6, 7, 1, 0)], 0),
        ([(2, 7, 0, 0), (4, 7, 0, 0)], 1),
        ([(2, 7, 0, 0), (4, 7, 0, 3)], 1),
        ([(2, 7, 0, 5)], 1),
    ],
    ids=["in order", "twice", "one lost", "not from the first"],
)
def test_batches_out_of_sequence_are_found(postgres, sent, found):
    ends = [0, *(end for end, *_ in sent)]
    batches = [(1, base, end, 0, *by) for base, (end, *by) in zip(ends, sent, strict=False)]
    assert len([*check_batches(Tables(postgres, *batches))]) == found


SENT = [("a", "1"), ("b", "2"), ("a", "3")]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ([(0, b"a", b"1"), (1, b"b", b"2"), (2, b"a", b"3")], 0),
        ([(0, b"a", b"1"), (1, b"b", b"2")], 1),
        ([(0, b"a", b"3"), (1, b"a", b"1"), (2, b"b", b"2")], 1),
        ([(0, b"a", b"1"), (1, b"b", b"2"), (2, b"a", b"1"), (3, b"a", b"3")], 1),
    ],
    ids=["right", "one lost", "out of order", "one twice"],
)
def test_wrong_content_of_fed_records_is_found(content, found):
    assert len([*check_fed("orders", SENT, {0: content})]) == found
