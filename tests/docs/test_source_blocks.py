"""What pages show of the source is in it."""

from collections.abc import Iterator
from itertools import takewhile

from docs.blocks import ROOT, Block, run_by

SCENARIOS = ROOT / "packages/conformance/src/kohort_conformance/scenarios"


def test_the_scenario_is_in_the_suite() -> None:
    (block,) = run_by(__file__, "docs/conformance.md")
    assert any(block.code in path.read_text() for path in SCENARIOS.rglob("*.py"))


def test_the_files_of_the_tree_are_there() -> None:
    (block,) = run_by(__file__, "docs/design.md")
    found = list(paths(block))
    assert len(found) > 40
    assert [path for path in found if not (ROOT / path).exists()] == []


def paths(block: Block) -> Iterator[str]:
    """The files and directories that the lines of a tree begin with."""
    above: list[str] = []
    for line in block.code.splitlines():
        names = list(takewhile(lambda word: word.endswith(("/", ".py")), line.split()))
        level = (len(line) - len(line.lstrip())) // 2
        yield from ("".join([*above[:level], name]) for name in names)
        if names and names[-1].endswith("/"):
            above[level:] = names[-1:]
