"""The groups that lost a topic, as a list of all entries would tell."""

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from history.test_tombstones import START_MS
from kohort.history.schema import COMMITS
from kohort.history.tombstones import Tombstone, Tombstones
from kohort.history.topic_losses import TopicLosses
from turns import cpu_ms

KEPT = 20
steps = st.tuples(st.sampled_from("tu"), st.sampled_from("ggh"), st.integers(0, 6), st.booleans())


@settings(max_examples=examples(100))
@given(st.lists(steps, max_size=200), st.data())
def test_answers_are_those_of_a_list_of_all_entries(
    log: list[tuple[str, str, int, bool]], data: st.DataObject
) -> None:
    losses, entries, now = TopicLosses(), list[tuple[str, str, int]](), 0
    for topic, group, step, is_loaded in log:
        now += step
        losses.add(topic, group, now)
        entries.append((topic, group, now))
        losses.forget(now - KEPT)
        if is_loaded:
            losses = TopicLosses.load(losses.dump())
    since = now - data.draw(st.integers(0, KEPT))
    until = since + data.draw(st.integers(0, KEPT))
    for topic in "tu":
        for group in "gh":
            expected = any(
                other != group and since <= time <= until
                for entry, other, time in entries
                if entry == topic
            )
            assert losses.has_other(topic, group, since, until) == expected
    kept = {entry for entry in entries if entry[2] >= now - KEPT}
    dumped = losses.dump()
    assert {
        (topic, group, time) for topic, found in dumped.items() for group, time in found
    } == kept
    assert TopicLosses.load(dumped).dump() == dumped


def test_many_tombstones_are_each_looked_at_once() -> None:
    """One deletion of 50,000 offsets, and one of as many groups: pairs would take minutes."""
    tombstones = Tombstones()

    def fold() -> None:
        now = START_MS * 1000
        for number in range(50_000):
            evidence = Tombstone(2 * number, "t", False, False, True)
            tombstones.add("g", 0, now + number * 10, [evidence])
            evidence = evidence._replace(topic="u")
            tombstones.add(f"g{number}", number, now + number * 10, [evidence])
            tombstones.are_expired(f"g{number}", number)
        no_rows = tombstones.rows
        assert no_rows.schema == COMMITS
        tombstones.resolve(no_rows, now + 60_000_000)

    assert cpu_ms(fold) < 5_000
    assert tombstones.dump() == {"deletions": [], "lost": {}}
