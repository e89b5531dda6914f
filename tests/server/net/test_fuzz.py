"""A second or two of `fuzz/connection.py`; longer by its own command."""

import importlib.util
from pathlib import Path
from typing import Any

HARNESS = Path(__file__).parents[3] / "fuzz" / "connection.py"


def load() -> Any:
    spec = importlib.util.spec_from_file_location("fuzz_connection", HARNESS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_session_breaks_a_connection() -> None:
    load().fuzz(examples=150)


def test_the_harness_states_its_invariant_first() -> None:
    assert HARNESS.read_text().startswith('"""Invariant: ')
