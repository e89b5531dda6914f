"""The tests of examples/testing pass, with the plugin and the defaults of pytest."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from testing.plain_pytest import run_pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "testing"
CLIENTS = {
    "test_aiokafka.py": "aiokafka",
    "test_confluent_kafka.py": "confluent_kafka",
    "test_faststream.py": "faststream",
    "test_kafka_python.py": "kafka",
    "test_kohort_client.py": "kohort",
    "test_simulation.py": "kohort",
}


def test_each_file_of_the_examples_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == CLIENTS.keys()


@pytest.mark.parametrize("name", CLIENTS)
def test_the_tests_of_a_client_pass(name: str) -> None:
    if find_spec(CLIENTS[name]) is None:
        pytest.skip(f"{CLIENTS[name]} is not installed")
    # Without pytest's configuration of this repository.
    code, output = run_pytest(EXAMPLES, "-c", "/dev/null", "--rootdir", str(EXAMPLES), name)
    assert code == 0, output
