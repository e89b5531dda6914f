"""Work of consumer groups in the background: how long the loop waits."""

from uuid import UUID

from kohort.coordinator.topics import FixedTopics, TopicImage
from runtime.served import serving, turns
from turns import BOUND_MS, longest_turn_ms


async def test_slow_regular_expressions():
    names = ["a" * 240 + str(number) for number in range(40)]
    topics = FixedTopics([TopicImage(name, UUID(int=n), 1) for n, name in enumerate(names, 1)], 1)
    slow = "(?:.{0,20}a.{0,20}){50}b"
    async with serving(topics=topics) as served:
        joined = served.consumer_heartbeat("g", "A", 0, regex=slow)
        worst, _ = await longest_turn_ms(turns(1_000))
        assert joined.error == "none"
        assert slow in served.groups.group("g").regexes
    print(f"{worst:.0f} ms")
    assert worst < BOUND_MS
