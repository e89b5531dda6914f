"""All groups on one page: their order, and how much of them is drawn."""

from kohort.report.limits import (
    DETAILED_GROUPS,
    MOST_POINTS,
    ONE_OF_MANY,
    sparkline_points,
)
from report.histories import busy, finding, generation, history, lag, minute, rebalance
from report.rendered import Parts, of_all, page_of


def page(*groups):
    found = page_of(groups)
    assert found is not None
    return found


def standing(group, ms):
    return history(
        group, generations=[generation(1, 0)], rebalances=[rebalance(1, 0, standstill_ms=ms)]
    )


def test_groups_come_by_severity_then_standstill_then_lag():
    found = page(
        (history("fine", minutes=[minute(0)]), ()),
        (history("behind", minutes=[minute(0)], lags=[lag(0, 10)]), ()),
        (standing("slow", 100), ()),
        (standing("slower", 90_000), ()),
        (history("warned", minutes=[minute(0)]), [finding("warning")]),
        (history("losing", minutes=[minute(0)]), [finding("error")]),
        (history("warned twice", minutes=[minute(0)]), [finding("warning")] * 2),
    )
    assert [row.name for row in found.rows] == [
        "losing", "warned twice", "warned", "slower", "slow", "behind", "fine",
    ]  # fmt: skip
    assert found.summary == (
        "7 groups: 1 with error findings, 2 with warning findings, 4 without findings."
    )


def test_numbered_groups_come_in_the_order_of_their_numbers():
    found = page(*((history(f"etl-{n}", minutes=[minute(0)]), ()) for n in (10, 9, 2)))
    assert [row.name for row in found.rows] == ["etl-2", "etl-9", "etl-10"]


def test_only_the_worst_groups_have_charts_and_the_others_are_there():
    count = DETAILED_GROUPS + 5
    found = page(*((standing(f"g{n}", n * 1_000 + 1), ()) for n in range(count)))
    assert [view.name for view in found.groups] == [f"g{n}" for n in reversed(range(5, count))]
    assert [view.name for view in found.brief] == ["g4", "g3", "g2", "g1", "g0"]
    assert all(view.values == () and view.facts for view in found.brief)


def test_a_page_of_any_number_of_groups_has_at_most_20_000_points():
    for groups in (1, 24, 25, 1_000, 20_000):
        detailed = min(groups, DETAILED_GROUPS) * ONE_OF_MANY.points
        assert detailed + groups * sparkline_points(groups) <= MOST_POINTS or groups > 10_000


def test_every_row_links_to_the_section_of_its_group():
    parts = Parts(of_all([busy(f"billing-{n}") for n in range(DETAILED_GROUPS + 2)]))
    anchors = {attributes["id"] for _, attributes in parts.elements if "id" in attributes}
    links = [a["href"] for a in parts.named("a")]
    assert len(links) > DETAILED_GROUPS
    assert all(link[1:] in anchors for link in links)


def test_no_groups_are_no_page():
    assert page_of([]) is None


def test_a_group_with_charts_has_more_of_its_findings_than_one_without():
    findings = [finding("warning", since=number) for number in range(ONE_OF_MANY.findings + 1)]
    worst = [(history(f"g{n}", minutes=[minute(0)]), findings * 2) for n in range(DETAILED_GROUPS)]
    found = page(*worst, (history("other", minutes=[minute(0)]), findings))
    assert {len(view.findings) for view in found.groups} == {ONE_OF_MANY.findings}
    assert {view.more_findings for view in found.groups} == {ONE_OF_MANY.findings + 2}
    (brief,) = found.brief
    assert (len(brief.findings), brief.more_findings) == (3, len(findings) - 3)
