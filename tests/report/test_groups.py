"""What the page says of a group, by small literal histories."""

from kohort.report.building import page_of_group
from kohort.report.limits import MOST_PARTITIONS
from report.histories import (
    assignment,
    at,
    busy,
    commit,
    coverage,
    finding,
    generation,
    history,
    lag,
    member,
    minute,
    rebalance,
)
from report.rendered import ORIGIN, Parts, of_group


def view(one, findings=()):
    return page_of_group(one, findings, ORIGIN).groups[0]


def fact(found, name):
    return next(fact.value for fact in found.facts if fact.name == name)


def test_an_owner_is_a_band_from_its_first_to_its_last_moment():
    chart = view(
        history(
            members=[member("a", 0, 30), member("b", 30)],
            assignments=[assignment(0, "a", 0, 30), assignment(0, "b", 45)],
            generations=[generation(1, 0, ["a"])],
        )
    ).owners
    bands = {owner.name: owner.rectangles for owner in chart.owners}
    assert bands == {"a": [(0, 0.5, 23)], "b": [(0.75, 0.25, 23)]}
    assert [label.text for label in chart.labels] == ["a", "b"]


def test_owners_that_change_too_fast_for_the_width_are_drawn_as_many():
    stays = [assignment(0, f"m{n % 2}", n / 10_000, (n + 1) / 10_000) for n in range(100)]
    members = [member("m0"), member("m1")]
    chart = view(history(members=members, assignments=stays, minutes=[minute(59)])).owners
    assert chart.owners == []
    assert chart.often == [(0, 0.0005, 23)]
    assert chart.notes == ["100 changes of owners too short to be drawn at this width."]


def test_the_partitions_with_the_most_lag_are_drawn_and_the_others_are_counted():
    count = MOST_PARTITIONS + 25
    chart = view(
        history(
            members=[member("a")],
            assignments=[assignment(p, "a") for p in range(count)],
            lags=[lag(30, p * 10, p) for p in range(count)],
        )
    ).owners
    assert [partition for _, partition, _ in chart.lanes] == list(range(25, count))
    assert chart.notes == [
        "25 more partitions not drawn: these have the most lag and changes of owner."
    ]


def test_a_generation_has_its_cause_in_words_and_as_a_mark():
    found = view(busy())
    rows = found.tables["rebalances"].rows
    assert rows[1] == (
        "2026-01-31 12:20:18", "classic 2",
        "billing-3 vanished (session expired); partitions: 8 moved", "40 ms", "46 s",
    )  # fmt: skip
    assert [stem.mark.kind for stem in found.rebalances.stems] == ["joined", "vanished", "joined"]
    assert fact(found, "Longest standstill") == "46 s"


def test_a_rebalance_of_which_records_are_missing_has_no_cause():
    found = view(
        history(
            generations=[generation(5, 10, ["a"])],
            rebalances=[rebalance(5, 10, complete=False, joined=None)],
        )
    )
    assert found.rebalances.stems[0].mark.kind == "unknown"
    assert not found.rebalances.stems[0].is_known
    assert "it is not known who joined" in " ".join(found.certainty)


def test_the_time_before_the_log_is_complete_is_shaded_and_said():
    gap = {"hole": 0, "complete_from": 3_000, "is_later": False}
    found = view(
        history(
            generations=[generation(1, 0, ["a"])],
            minutes=[minute(m) for m in range(60)],
            coverages=[coverage(60, [gap], complete_from=3_000, complete_from_time=at(30))],
        )
    )
    assert [(shade.begin, shade.width) for shade in found.axis.shades] == [(0, 0.5)]
    assert found.certainty[0].startswith(
        "What happened before 2026-01-31 12:30:00 UTC is not known"
    )
    assert not found.is_certain


def test_a_gap_between_builds_is_bounded_by_the_records_around_it():
    gap = {"hole": 2_000, "complete_from": 3_000, "is_later": True}
    minutes = [minute(m) for m in range(60) if not 20 <= m < 30]
    found = view(
        history(
            generations=[generation(1, 0, ["a"])], minutes=minutes, coverages=[coverage(60, [gap])]
        )
    )
    assert [(round(s.begin * 60), round(s.width * 60)) for s in found.axis.shades] == [(19, 11)]


def test_a_bucket_without_commits_is_not_zero_where_records_are_missing():
    gap = {"hole": 2_000, "complete_from": 3_000, "is_later": True}
    minutes = [minute(m) for m in range(60) if not 20 <= m < 30]
    known = view(history(minutes=minutes)).values[0].lines[0].path
    unknown = (
        view(history(minutes=minutes, coverages=[coverage(60, [gap])])).values[0].lines[0].path
    )
    assert known.count("M") == 1
    assert unknown.count("M") == 2


def test_the_rate_is_of_all_partitions():
    found = view(history(minutes=[minute(m, p, records=600) for m in range(60) for p in range(3)]))
    assert found.values[0].summary == "At most 30 records per second, in steps of 1 min."
    assert fact(found, "Records committed") == "108 k"


def test_the_rate_of_a_short_time_is_that_of_its_commits():
    found = view(history(commits=[commit(m / 60) for m in range(20)], end=0.5))
    assert "in steps of 1 s" in found.values[0].summary


def test_a_partition_keeps_its_lag_until_the_next_row():
    found = view(
        history(
            minutes=[minute(m) for m in range(60)],
            lags=[lag(0, 100, 0), lag(0, 50, 1), lag(30, 0, 1)],
        )
    )
    chart = next(chart for chart in found.values if chart.key == "lag")
    assert chart.summary == "100 records at the end."
    assert chart.top == 200
    assert fact(found, "Lag at the end") == "100 records"


def test_a_lag_that_is_not_known_is_no_zero():
    found = view(history(minutes=[minute(0)], lags=[lag(0, None, 0), lag(0, 7, 1), lag(59, 7, 1)]))
    assert fact(found, "Lag at the end") == "7 records"
    assert any("not known of 1 partition" in fact.detail for fact in found.facts)


def test_a_history_without_samples_says_that_lag_is_not_drawn():
    found = view(history(minutes=[minute(m) for m in range(60)]))
    assert "no samples" in found.missing[0]
    assert fact(found, "Lag at the end") == "not known"


def test_findings_are_shown_the_worst_first():
    found = view(busy(), [finding("info"), finding("error", 40), finding("warning")])
    assert [one.severity for one in found.findings] == ["error", "warning", "info"]
    text = Parts(of_group(busy(), [finding()])).words
    assert "rewind orders-3 orders-3 was set back from 5,000 to 120." in text


def test_a_group_without_members_has_commits_and_no_owners():
    found = view(history(minutes=[minute(m) for m in range(60)]))
    assert found.owners is None
    assert any("had no members" in reason for reason in found.missing)


def test_a_group_of_one_record_has_a_page():
    text = Parts(of_group(history(generations=[generation(0, 0, [])], end=0))).words
    assert "the group was created" in text


def test_the_time_after_the_end_of_a_group_is_said_and_not_drawn():
    ended = history(
        members=[member("a", 0, 5)], assignments=[assignment(0, "a", 0, 5)], minutes=[minute(2)]
    )
    found = view(ended)
    assert found.period == "2026-01-31 12:00:00 to 12:05:30 UTC"
    assert (
        "Nothing happened later, up to the end of the history at 2026-01-31 13:00:00 UTC"
        in " ".join(found.certainty)
    )
    going_on = history(members=[member("a")], assignments=[assignment(0, "a")])
    assert view(going_on).period == "2026-01-31 12:00:00 to 13:00:00 UTC"


def test_a_lag_after_the_end_of_a_group_is_drawn():
    found = view(history(members=[member("a", 0, 5)], lags=[lag(0, 5), lag(59, 900)]))
    assert found.period.endswith("13:00:00 UTC")


def test_every_chart_has_a_table_with_its_content():
    found = view(busy())
    assert {table.caption for table in found.tables.values()} == {
        "Owners of partitions", "Generations and why they began", "Commits and lag over time",
        "Members",
    }  # fmt: skip
    owners = found.tables["owners"]
    assert owners.rows[0][:3] == ("orders 0", "billing-1", "2026-01-31 12:00:00")
    assert len(owners.rows) == 36
    assert list(found.tables["values"].columns[1:]) == [
        "Records per second", "Commits per minute", "Lag in records", "Behind",
    ]  # fmt: skip
