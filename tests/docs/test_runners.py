"""Every block of every page is run by one test file, or the reason why not is listed."""

import pytest

from docs.blocks import FENCED, INDENTED, NOT_RUN, PAGES, ROOT, RUNNERS, blocks, reasons, runners

LISTED = "tests/docs/blocks.py"


def test_each_block_has_one_runner_or_a_reason() -> None:
    homeless = [
        f"{block} ({block.language or 'no language'}): {' and '.join(found) or 'nobody runs it'}"
        for block in blocks()
        if len(found := [*runners(block), *reasons(block)]) != 1
    ]
    assert not homeless, f"name a runner or a reason in {LISTED}: {homeless}"


@pytest.mark.parametrize("file", RUNNERS)
def test_each_runner_runs_its_blocks(file: str) -> None:
    assert any(file in runners(block) for block in blocks()), f"{LISTED}: {file} runs nothing"
    assert "run_by(__file__" in (ROOT / file).read_text(encoding="utf-8")


def test_each_reason_is_of_a_block() -> None:
    known = [(block.page, block.code) for block in blocks()]
    unused = [
        (page, beginning)
        for page, beginning in NOT_RUN
        if not any(page == each and code.startswith(beginning) for each, code in known)
    ]
    assert not unused, f"{LISTED}: no such block"


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_fenced(page: str) -> None:
    """An indented block has no language, so nobody would run it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = INDENTED.search(FENCED.sub("", text))
    assert found is None, f"{page}: fence the block {found[0].strip()!r}"
    assert text.count("```") == 2 * sum(block.page == page for block in blocks())
