"""Signs of life."""

import threading
from io import StringIO

import pytest
from rich.console import Console

from kohort_demo import waiting


class Output(StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.twice = threading.Event()

    def write(self, text: str) -> int:
        written = super().write(text)
        if self.getvalue().count("Starting") >= 2:
            self.twice.set()
        return written


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Output:
    monkeypatch.setattr(waiting, "LINE_SECONDS", 0.01)
    return Output()


def test_without_a_terminal_lines_come_again_and_again(output: Output) -> None:
    with waiting.waiting(Console(file=output, width=80), lambda: "Starting [x]"):
        assert output.twice.wait(60)
    assert output.getvalue().splitlines()[0] == "  Starting [x] (0 s)"


def test_a_terminal_shows_it_and_forgets_it(output: Output) -> None:
    console = Console(file=output, width=80, force_terminal=True)
    with waiting.waiting(console, lambda: "Starting"):
        assert output.twice.wait(60)


def test_without_a_terminal_a_count_is_told_too(output: Output) -> None:
    with waiting.counting(Console(file=output, width=80), "Starting", 3_000) as on_progress:
        on_progress(1_000)
        assert output.twice.wait(60)
        on_progress(3_000)
    assert "Starting: 1,000 of 3,000 (0 s)" in output.getvalue()
    assert "3000/3000" in output.getvalue()
