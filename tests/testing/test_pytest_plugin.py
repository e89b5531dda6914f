"""The pytest plugin, as the tests of a new user meet it: in a pytest of its own, with its defaults.

Each pytest runs in a directory without configuration.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from kohort.testing import EmbeddedKafka
from testing.plain_pytest import PLUGIN, run_pytest


def passes(directory: Path, *options: str, tests: int) -> None:
    code, output = run_pytest(directory, *options)
    assert code == 0, output
    assert f"{tests} passed" in output


def test_a_first_test_needs_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "test_first.py").write_text(
        """
def test_a_topic_has_what_was_produced(kafka):
    kafka.topic("orders", partitions=4)
    kafka.produce("orders", b"paid")
    assert [record.value for record in kafka.records("orders")] == [b"paid"]

def test_each_test_has_a_kafka_of_its_own(kafka):
    kafka.topic("orders")
    assert kafka.records("orders") == []
"""
    )
    passes(tmp_path, tests=2)


ASYNC_TEST = """
async def test_a_group_is_empty_after_a_commit(akafka, kafka):
    akafka.topic("orders")
    akafka.group("billing").commit({("orders", 0): 1})
    state = await akafka.group("billing").wait(state="Empty")
    assert state.committed["orders", 0] == 1
    await akafka.advance(10)
    assert kafka.bootstrap == akafka.bootstrap
"""


@pytest.mark.parametrize(
    ("head", "options"),
    [
        ("import pytest\n@pytest.mark.asyncio", ()),
        ("", ("-o", "asyncio_mode=auto")),
        (
            "import pytest\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
            "@pytest.mark.anyio",
            (),
        ),
    ],
    ids=["strict", "auto", "anyio"],
)
def test_coroutine_tests_run_in_every_mode(
    tmp_path: Path, head: str, options: tuple[str, ...]
) -> None:
    (tmp_path / "test_async.py").write_text(head + ASYNC_TEST)
    passes(tmp_path, *options, tests=1)


def test_settings_come_from_marks_and_from_the_ini_file(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nkafka_settings =\n    num.partitions=3\n    group.max.size=7\n"
    )
    (tmp_path / "test_settings.py").write_text(
        """
import pytest

pytestmark = pytest.mark.kafka(settings={"num.partitions": 5})

def config(kafka, name):
    return kafka._server.call(lambda server: server.broker.config[name])

def test_the_module_is_stronger_than_the_file(kafka, kafka_module, kafka_session):
    assert (config(kafka, "num.partitions"), config(kafka, "group.max.size")) == (5, 7)
    assert config(kafka_module, "num.partitions") == 5
    assert config(kafka_session, "num.partitions") == 3

@pytest.mark.kafka(settings={"num.partitions": 9}, disk=True)
def test_the_test_is_stronger_than_the_module(kafka, kafka_factory):
    assert config(kafka, "num.partitions") == 9
    other = kafka_factory(settings={"group.max.size": 2})
    assert (config(other, "num.partitions"), config(other, "group.max.size")) == (9, 2)
    kafka.topic("orders")
    kafka.produce("orders", b"kept")
    kafka.restart()
    assert [record.value for record in kafka.records("orders")] == [b"kept"]
"""
    )
    passes(tmp_path, "--strict-markers", tests=2)


def test_a_module_shares_its_kafka(tmp_path: Path) -> None:
    (tmp_path / "test_shared.py").write_text(
        """
def test_one_creates_a_topic(kafka_module):
    kafka_module.topic("orders")

def test_another_one_sees_it(kafka_module, kafka_session):
    assert kafka_module.records("orders") == []
    assert kafka_module is not kafka_session
"""
    )
    passes(tmp_path, tests=2)


def test_killed_clients_can_connect_again_after_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_killed.py").write_text(
        """
from kohort.client.sync import Producer

def test_one_kills_a_client(kafka_session):
    kafka_session.topic("orders")
    kafka_session.kill(client_id="a")

def test_the_next_uses_its_client_id(kafka_session):
    with Producer(bootstrap=kafka_session.bootstrap, client_id="a") as producer:
        producer.send_and_wait("orders", b"paid")
    assert len(kafka_session.records("orders")) == 1
"""
    )
    passes(tmp_path, tests=2)


def test_a_failed_test_shows_the_timeline(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(
        """
def test_a_failure(kafka):
    kafka.advance(45)
    assert kafka.group("billing").state == "Stable"
"""
    )
    code, output = run_pytest(tmp_path)
    assert code == 1
    assert "Kafka timeline" in output
    assert "advance by 45 s" in output


def test_a_fault_that_no_request_met_fails_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_unmet.py").write_text(
        """
def test_a_fault(kafka):
    kafka.drop("OffsetCommit")
"""
    )
    code, output = run_pytest(tmp_path)
    assert code == 1
    assert "faults that no request has met" in output


def test_a_test_that_failed_is_not_blamed_for_its_faults_too(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(
        """
def test_a_failure(kafka, kafka_session):
    kafka.drop("OffsetCommit")
    kafka_session.drop("OffsetCommit")
    raise RuntimeError("of the test")
"""
    )
    code, output = run_pytest(tmp_path)
    assert code == 1
    assert "of the test" in output
    assert "faults that no request has met" not in output


def test_faults_and_frozen_time_of_a_shared_server_end_with_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_shared.py").write_text(
        """
import pytest

@pytest.fixture(scope="session")
def slow(kafka_session):
    return kafka_session.delay("Fetch", seconds=1, times=None, required=False)

def test_a_fault(kafka_session, slow):
    kafka_session.drop("OffsetCommit")

def test_frozen_time(kafka_session, slow):
    kafka_session.freeze()

def test_the_faults_of_fixtures_stay(kafka_session, slow):
    assert slow.met == 0
    checkpoint = kafka_session.checkpoint()
    assert len(checkpoint.faults) == 1
    assert not checkpoint.is_frozen
"""
    )
    code, output = run_pytest(tmp_path)
    assert code == 1
    assert "3 passed, 1 error" in output
    assert "ERROR test_shared.py::test_a_fault - AssertionError: faults that no" in output


def test_wrong_marks_are_usage_errors(tmp_path: Path) -> None:
    (tmp_path / "test_wrong.py").write_text(
        """
import pytest

@pytest.mark.kafka(setings={})
def test_a_typo(kafka):
    pass
"""
    )
    code, output = run_pytest(tmp_path)
    assert code != 0
    assert "takes settings= and disk=" in output


def test_settings_of_marks_are_mappings(tmp_path: Path) -> None:
    (tmp_path / "test_wrong.py").write_text(
        """
import pytest

@pytest.mark.kafka(settings=5)
def test_a_number(kafka):
    pass
"""
    )
    code, output = run_pytest(tmp_path)
    assert code != 0
    assert "takes a mapping as settings" in output


def test_the_workers_of_xdist_share_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_workers.py").write_text(
        """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_a_session_has_its_own_topics(kafka_session, number):
    kafka_session.topic(f"orders-{number}")
"""
    )
    passes(tmp_path, "-n", "2", tests=4)


def test_a_unittest_has_a_kafka(tmp_path: Path) -> None:
    (tmp_path / "test_unit.py").write_text(
        """
import unittest

from kohort.testing import KafkaTestMixin

class OrdersTest(KafkaTestMixin, unittest.TestCase):
    kafka_settings = {"num.partitions": 3}

    def test_a_topic(self):
        self.kafka.topic("orders")
        self.assertEqual(self.kafka.records("orders"), [])

class AsyncOrdersTest(KafkaTestMixin, unittest.IsolatedAsyncioTestCase):
    async def test_a_topic(self):
        self.kafka.topic("orders")
"""
    )
    passes(tmp_path, tests=2)


def test_the_plugin_imports_no_server() -> None:
    """Every pytest of an environment with Kohort loads the plugin."""
    code = f"import sys, {PLUGIN}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = {name for name in done.stdout.split() if name.startswith("kohort")}
    assert imported == {"kohort", "kohort.testing", PLUGIN}


RECORDED_TESTS = """
import pytest

def commit(kafka):
    kafka.topic("orders", partitions=1)
    from kohort.client.sync import Producer
    with Producer(bootstrap=kafka.bootstrap) as producer:
        producer.send("orders", b"paid").result(timeout_s=60)

def test_passes(kafka):
    commit(kafka)

@pytest.mark.parametrize("way", ["a/b"])
def test_fails(kafka, way):
    commit(kafka)
    assert 0

def test_further_server_fails(kafka_factory):
    kafka_factory()
    commit(kafka_factory())
    assert 0

def test_unmet_fault(kafka):
    kafka.drop("Metadata")
"""
OF_SESSION = """
def test_a_session_passes(kafka_session):
    pass
"""


def test_recordings_of_failed_tests_are_kept(tmp_path: Path) -> None:
    (tmp_path / "test_recorded.py").write_text(RECORDED_TESTS)
    (tmp_path / "test_session.py").write_text(OF_SESSION)
    for _ in range(2):  # the second run replaces the files of the first one
        code, output = run_pytest(tmp_path, "--kafka-record", "recordings")
        assert code == 1, output
        assert {path.name for path in (tmp_path / "recordings").iterdir()} == {
            "test_recorded.py-test_fails-a-b.jsonl",
            "test_recorded.py-test_further_server_fails.jsonl",
            "test_recorded.py-test_further_server_fails-2.jsonl",
            "test_recorded.py-test_unmet_fault.jsonl",
            "session.jsonl",
        }
    with EmbeddedKafka() as kafka:
        kafka.topic("orders", partitions=1)
        result = kafka.replay(tmp_path / "recordings" / "test_recorded.py-test_fails-a-b.jsonl")
        assert (result.differences, result.responses > 3) == ([], True)


def test_a_run_without_the_option_records_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_recorded.py").write_text(RECORDED_TESTS)
    assert run_pytest(tmp_path)[0] == 1
    assert not list(tmp_path.glob("**/*.jsonl"))
