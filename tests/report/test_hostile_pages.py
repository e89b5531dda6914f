"""Whatever names clients choose, a page stays what it is: nothing of them is markup or script."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.report.building import page_of_group
from kohort.report.picture import picture
from kohort.util.printable import printable
from report import histories
from report.histories import (
    assignment,
    busy,
    generation,
    history,
    lag,
    member,
    minute,
    rebalance,
)
from report.rendered import ORIGIN, Parts, of_all, of_group, page_of

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</title></style></svg><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% raw %}${7*7}",
    "<!-- -->]]>&lt;&amp;&#x3c;",
    "javascript:alert(1)",
    "a\u2028b\u2029c",
    "\u202edrawkcab\u2066",
    "\x1b[31m\x9b2J\x00\x07\x7f",
    "\ufeff\ufffe\uffff",
    "ab\u0301" + "\u0301" * 500,
    "x" * 32_000,
    "\u05d0\u05d1\u05d2 \u0627\u0644\u0639",
    "\U0001f600" * 20,
    "",
    "../../etc/passwd",
    "url(#m1);}*{display:none",
]


def hostile_history(name):
    """A group in which everything that a client chooses is this name."""
    return history(
        name,
        members=[member(name, client_id=name, client_host=name, instance_id=name)],
        assignments=[assignment(p, name, topic=name) for p in range(3)],
        generations=[generation(1, 0, [name], leader=name, protocol=name or "-")],
        rebalances=[rebalance(1, 0, joined=[name, name + "2"], standstill_ms=5)],
        minutes=[minute(m, topic=name) for m in range(60)],
        lags=[lag(m, 7, topic=name) for m in range(60)],
    )


def finding(name):
    return histories.finding(id=name, subject=name or "-", text=name, severity="error")


def skeleton(html):
    """The elements of a page with their attributes, without those that hold text."""
    texts = ("aria-label", "title")
    return [
        (tag, {key: value for key, value in attributes.items() if key not in texts})
        for tag, attributes in Parts(html).elements
    ]


def without_widths(elements):
    """The elements, and which attributes each has."""
    return [(tag, sorted(attributes)) for tag, attributes in elements]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_name_adds_no_element_and_no_attribute(name):
    plain = without_widths(skeleton(of_group(hostile_history("plain"), [finding("plain")])))
    html = of_group(hostile_history(name), [finding(name)])
    assert without_widths(skeleton(html)) == plain
    both = of_all([hostile_history(name), busy()], {name: [finding(name)]})
    expected = of_all([hostile_history("plain"), busy()], {"plain": [finding("plain")]})
    assert without_widths(skeleton(both)) == without_widths(skeleton(expected))


@settings(max_examples=examples(60), deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_shown_as_itself(name):
    html = of_group(hostile_history(name or "x"), [finding(name)])
    parts = Parts(html)
    assert len(parts.named("script")) == 1
    assert not CONTROLS.search(html)
    if name and len(name) <= 60:
        expected = " ".join(printable(name).split())
        assert expected in parts.words or "\\u" in parts.words


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_picture_stays_one_svg_without_what_names_would_add(name):
    svgs = [
        picture(page_of_group(hostile_history(name), [finding(name)], ORIGIN)),
        picture(page_of([(hostile_history(name), [finding(name)])])),
    ]
    for svg in svgs:
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(svg).iter()}
        assert tags <= {
            "svg", "style", "defs", "pattern", "path", "rect", "circle", "text", "g", "line",
            "title",
        }  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_name_makes_no_page_large(name):
    assert len(of_group(hostile_history(name), [finding(name)])) < 80_000


def test_a_page_names_no_other_file_and_allows_no_request():
    html = of_all([busy(), hostile_history(HOSTILE[2])])
    parts = Parts(html)
    for tag, attributes in parts.elements:
        assert not {"src", "srcset", "action", "style"} & attributes.keys(), tag
        assert not any(key.startswith("on") for key in attributes), attributes
        if "href" in attributes:
            assert attributes["href"].startswith("#") or attributes["href"] == "data:,"
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in html
    policy = next(meta["content"] for meta in parts.named("meta") if "http-equiv" in meta)
    assert policy.startswith(
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert "unsafe" not in policy
