"""What the demo needs beyond Kohort, and what it says when that is missing."""

import sys

import pytest

from kohort_demo.errors import DemoError
from kohort_demo.main import needed


def test_the_demo_names_how_to_install_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(DemoError, match=r"pip install -r examples/demo/requirements\.txt"):
        needed()


def test_all_of_it_is_installed_for_development() -> None:
    needed()
