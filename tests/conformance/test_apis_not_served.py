"""docs/differences.md lists the APIs and features that Kafka advertises and Kohort does not."""

import re
from pathlib import Path

from kio.schema.index import api_key_map

from kohort.protocol.apis import APIS
from kohort.protocol.features import FEATURES
from kohort_conformance.reference import Range, load
from peers import kafka

DOCS = Path(__file__).parents[2] / "docs/differences.md"


def listed() -> list[tuple[str, ...]]:
    """The cells of each row with a range of versions or levels."""
    text = DOCS.read_text("utf-8").partition("## APIs that Kohort does not serve")[2]
    rows = re.findall(r"^\| (.+) \|$", text.partition("\n## ")[0], re.MULTILINE)
    cells = [tuple(row.split(" | ")) for row in rows]
    return [row for row in cells if any(re.fullmatch(r"\d+-\d+", cell) for cell in row)]


def as_range(text: str) -> Range:
    low, high = text.split("-")
    return int(low), int(high)


def test_each_api_of_kafka_is_served_in_all_versions_or_listed() -> None:
    served = {api.key: (api.advertised_from, api.max_version) for api in APIS.values()}
    missing = {int(row[0]): as_range(row[2]) for row in listed() if row[0].isdecimal()}
    assert served.keys().isdisjoint(missing)
    assert served | missing == dict(load().apis)


def test_each_feature_of_kafka_has_all_levels_or_is_listed() -> None:
    supported = {name: (one.first, one.last) for name, one in FEATURES.items()}
    missing = {row[0].strip("`"): as_range(row[1]) for row in listed() if row[0][0] == "`"}
    assert supported.keys().isdisjoint(missing)
    assert supported | missing == dict(load().features)


def test_each_listed_api_has_kafkas_name_and_each_row_a_reason() -> None:
    for row in listed():
        assert len(row[-1]) > 10, row
        if row[0].isdecimal() and int(row[0]) in api_key_map:
            assert api_key_map[int(row[0])] == re.sub(r"(?<=[a-z])(?=[A-Z])", "_", row[1]).lower()


def test_the_kafka_that_tests_start_is_the_recorded_one() -> None:
    assert load().server == f"Apache Kafka {kafka.VERSION}"
