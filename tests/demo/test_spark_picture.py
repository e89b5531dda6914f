"""Delays over the day, as bars and as a picture."""

from xml.etree import ElementTree

from kohort_demo.spark import next_name
from kohort_demo.spark_picture import Hour, bars, svg

HOURS = [Hour(5, 1_950, 0.5), Hour(19, 21_441, 24.8), Hour(23, 1_000, 14.0)]
SVG = "{http://www.w3.org/2000/svg}"


def test_the_longest_bar_is_that_of_the_worst_hour():
    lines = bars(HOURS).plain.splitlines()
    assert [line.count("█") for line in lines] == [1, 40, 23]
    assert lines[1].endswith(" 24.8 min")


def test_an_hour_that_was_early_has_no_bar():
    assert bars([Hour(5, 10, -2.0), Hour(6, 10, 4.0)]).plain.splitlines()[0].count("█") == 0


def test_the_picture_has_a_bar_for_each_hour():
    drawn = ElementTree.fromstring(svg(HOURS, "Delays & more".replace("&", "&amp;")))
    titles = [each.text for each in drawn.iter(f"{SVG}title")]
    assert titles == [
        "5:00, 1,950 flights, 0.5 min",
        "19:00, 21,441 flights, 24.8 min",
        "23:00, 1,000 flights, 14.0 min",
    ]


def test_without_flights_there_is_an_empty_picture():
    assert not list(ElementTree.fromstring(svg([], "Nothing")).iter(f"{SVG}title"))


def test_each_run_takes_a_group_that_no_other_had():
    assert next_name([]) == "flight-delays-1"
    assert next_name(["flight-delays-1", "orders"]) == "flight-delays-2"
