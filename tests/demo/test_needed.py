"""What the demo needs beyond Kohort, and what it says when that is missing."""

import sys

import pytest

from kohort.demo.errors import DemoError
from kohort.demo.main import needed


def test_the_demo_names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(DemoError, match=r"pip install 'kohort\[demo\]'"):
        needed()


def test_all_of_it_is_installed_for_development() -> None:
    needed()
