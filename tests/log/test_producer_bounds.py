"""Producers of one log: clients choose their ids, and the memory of them is bounded."""

from kohort.log.producers import MAX_PRODUCERS, Producers
from kohort.protocol.batches import Record, build, read_header


def test_those_idle_for_longest_are_forgotten() -> None:
    producers = Producers()
    header = read_header(
        build([Record(None, b"v")], producer_id=0, producer_epoch=0, base_sequence=0)
    )
    for n in range(MAX_PRODUCERS + 500):
        producers.add(header._replace(producer_id=n), n, 0, n)
        if n % 100 == 0:  # one that goes on is kept
            producers.add(header._replace(producer_id=0, base_sequence=n + 1), n, 0, n)
    assert len(producers) <= MAX_PRODUCERS
    active = header._replace(producer_id=0, base_sequence=10_401)
    assert producers.validate(active) is not None, "a duplicate of the last batch"
    assert producers.validate(header._replace(producer_id=5, base_sequence=0)) is None
    kept = header._replace(producer_id=MAX_PRODUCERS + 499)
    assert producers.validate(kept) is not None
