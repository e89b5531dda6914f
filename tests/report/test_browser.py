"""Pages in a real browser, which has no network: they run, ask for nothing, and stay in place."""

import pytest

from report.browser import Browser, needs_browser
from report.histories import busy
from report.rendered import of_all, of_group
from report.test_hostile_pages import HOSTILE, finding, hostile_history

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser():
    with Browser() as opened:
        yield opened


@pytest.fixture
def show(browser, tmp_path):
    def shown(html):
        path = tmp_path / "report.html"
        path.write_text(html, encoding="utf-8")
        return browser.open(path)

    return shown


def test_a_page_runs_without_an_error_and_without_a_request(show):
    page = show(of_all([busy("billing"), busy("etl")]))
    assert page.evaluate("document.querySelectorAll('.canvas').length") == 10
    assert page.evaluate("getComputedStyle(document.querySelector('h1')).fontWeight") == "650"
    assert page.messages == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in page.requests if url.startswith("file:")]) == 1


def test_hostile_names_run_nothing_and_ask_for_nothing(show):
    groups = [hostile_history(name) for name in HOSTILE]
    page = show(of_all(groups, {name: [finding(name)] for name in HOSTILE}))
    assert page.evaluate("document.scripts.length") == 1
    assert page.evaluate("document.images.length") == 0
    assert page.messages == []
    assert len([url for url in page.requests if not url.startswith("data:")]) == 1
    assert page.evaluate("document.title") == "Groups"


@pytest.mark.parametrize("width", [400, 1600])
def test_a_page_is_never_wider_than_the_screen(show, width):
    page = show(of_all([busy(), *(hostile_history(name) for name in HOSTILE)]))
    page.resize(width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_pointer_and_the_keys_show_figures(show):
    page = show(of_group(busy()))
    page.resize(1200, 4000)
    box = page.evaluate(
        "(({x, y, width}) => [x, y, width])"
        "(document.querySelector('.canvas').getBoundingClientRect())"
    )
    readout = "document.querySelector('.readout').textContent"
    page.move(box[0] + box[2] / 4, box[1] + 30)
    assert page.evaluate(readout) == "2026-01-31 12:15:00 UTC · orders 0: billing-1"
    page.evaluate("document.querySelector('.canvas').focus()")
    page.press("ArrowDown")
    page.press("End")
    assert page.evaluate(readout).endswith("UTC · orders 1: billing-2")
    lag = "document.querySelectorAll('.canvas')[3]"
    page.evaluate(f"{lag}.focus()")
    page.press("Home")
    assert page.evaluate("document.querySelectorAll('.readout')[3].textContent") == (
        "2026-01-31 12:00:00 UTC · 0 records, largest partition 0 records"
    )


def test_words_choose_groups_of_the_overview(show):
    page = show(of_all([busy("billing"), busy("etl")]))
    page.evaluate("words.value = 'ETL'; words.dispatchEvent(new Event('input'))")
    shown = "[...document.querySelectorAll('.overview tbody tr')].filter(r => !r.hidden).length"
    assert page.evaluate(shown) == 1
    assert page.evaluate("matches.textContent") == "1 of 2"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_the_contrast_of_level_aa(show, scheme):
    page = show(of_group(busy(), [finding("plain")]))
    page.prefer(scheme)
    assert page.evaluate(_CONTRASTS) == []


_CONTRASTS = """
(() => {
  const rgb = text => text.match(/[0-9.]+/g).map(Number);
  const part = c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const found = [];
  const texts = 'p, dt, dd, small, li, th, td, a, summary, .badge, text';
  const groundOf = node => rgb(getComputedStyle(node).backgroundColor);
  for (const element of document.querySelectorAll(texts)) {
    const style = getComputedStyle(element);
    const isDrawn = element.tagName === 'text';
    let paper = element;
    let ground = [0, 0, 0, 0];
    if (element.classList.contains('own')) continue;
    while (paper && groundOf(paper)[3] === 0) paper = paper.parentElement;
    ground = groundOf(paper || document.body);
    const ink = rgb(isDrawn ? style.fill : style.color);
    const [high, low] = [light(ink), light(ground)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) found.push(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`);
  }
  return found;
})()
"""
