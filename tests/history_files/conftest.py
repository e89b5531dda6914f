"""The fold is that of `fake_fold` in these tests."""

import sys

import pytest

from history_files import fake_fold

MODULES = ("kohort.history.fold", "kohort.history.state")


@pytest.fixture(autouse=True)
def fold(monkeypatch):
    for name in MODULES:
        monkeypatch.setitem(sys.modules, name, fake_fold)
