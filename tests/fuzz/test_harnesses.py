"""Some thousand inputs for each harness of `fuzz/`; a million by `make fuzz`."""

import importlib
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[2] / "fuzz"
INPUTS = {
    "request_decoders": 4_000,
    "produced_batches": 3_000,
    "internal_records": 5_000,
    "log_recovery": 150,
    "sasl": 10_000,
    "tls": 2_000,
    "transactions": 4_000,
}


@pytest.fixture
def harness(monkeypatch):
    monkeypatch.syspath_prepend(str(FUZZ))
    yield importlib.import_module
    for name in (*INPUTS, "_engine"):
        sys.modules.pop(name, None)


def test_every_harness_is_run():
    others = {"connection"}  # `server/net/test_fuzz.py`
    assert {each.stem for each in FUZZ.glob("[!_]*.py")} == {*INPUTS, *others}


@pytest.mark.parametrize("name", INPUTS)
def test_the_invariant_holds(harness, name):
    module = harness(name)
    assert module.__doc__.startswith("Invariant: ")
    harness("_engine").run(module.check, module.seeds(), INPUTS[name], seed=1)
