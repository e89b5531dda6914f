"""Regular expressions of consumer groups: resolved beside the heartbeats, and on what they match.

Each names topics of its own scenario alone: other scenarios make topics at the same time.
"""

from __future__ import annotations

import re
import time
from typing import Any

from kohort_conformance.consumers import (
    PlayedConsumer,
    consumer,
    joined,
    known_topic,
    name_topics,
    named_topic,
    named_topics,
    same_shard,
    settle,
    settled,
    show,
)
from kohort_conformance.group_log import GroupLog
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage, how_long

AGAIN_SECONDS = 11.0
"""After so long Kafka looks at regular expressions once more."""


def own(stage: Stage, pattern: str) -> str:
    """A regular expression for topics of the scenario, by what follows its name."""
    return f"{literal(stage.name)}-{pattern}{literal(stage.suffix)}"


def literal(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]", lambda found: f"\\{found[0]}", text)


async def by_regex(
    stage: Stage, client_id: str, regex: str, *names: str, **values: Any
) -> PlayedConsumer:
    """A member to be that subscribes a regular expression, and names besides."""
    return await consumer(stage, client_id, *names, regex=regex, **values)


@scenario
async def first_member(stage: Stage) -> None:
    """The first heartbeat brings nothing; the resolution is a new epoch."""
    topic = await known_topic(stage, "one", partitions=2)
    await known_topic(stage, "two")
    await name_topics(stage, topic)
    log = await GroupLog.of(stage)
    a = await by_regex(stage, "a", own(stage, "o.*"))
    await a.join()
    await a.reaches(2)
    await log.record("a has the topic")
    await show(a.client, stage.group)
    await a.beat(subscribed_topic_regex=own(stage, "o.*"))
    await a.leave()
    await log.record("a left")


@scenario
async def whole_names(stage: Stage) -> None:
    """A regular expression matches whole names."""
    await known_topic(stage, "one")
    await known_topic(stage, "one-more")
    a = await by_regex(stage, "a", own(stage, "one"))
    await a.join()
    await a.reaches(2)
    await show(a.client, stage.group)


@scenario
async def no_topic(stage: Stage) -> None:
    """One that matches nothing is resolved, too."""
    log = await GroupLog.of(stage)
    a = await by_regex(stage, "a", own(stage, "none"))
    await a.join()
    await stage.settle(1.5)
    await a.beat()
    await log.record("resolved")
    await show(a.client, stage.group)


@scenario
async def names_as_well(stage: Stage) -> None:
    """Names and a regular expression together are the union."""
    one, _ = await named_topics(stage, "one", "two", partitions=2)
    log = await GroupLog.of(stage)
    a = await by_regex(stage, "a", own(stage, "t.*"), one)
    await a.join()
    await a.reaches(3)
    await log.record("both")
    await show(a.client, stage.group)


@scenario
async def of_two_members(stage: Stage) -> None:
    """A regular expression that is resolved already is in effect at once."""
    await named_topic(stage, "one", partitions=2)
    a = await by_regex(stage, "a", own(stage, "o.*"))
    await a.join()
    await a.reaches(2)
    log = await GroupLog.of(stage)
    b = await by_regex(stage, "b", own(stage, "o.*"))
    await b.join()
    await log.record("b joined")
    await settle([a, b])
    await log.skip()
    await show(a.client, stage.group)
    await a.leave()
    await log.record("a left")
    await b.leave()
    await log.record("b left")


@scenario
async def from_names_to_a_regex(stage: Stage) -> None:
    """A member that changes to a new regular expression has nothing until it is resolved."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    await a.beat(subscribed_topic_names=[], subscribed_topic_regex=own(stage, "t.*"))
    await stage.settle()
    await a.acking().quiet()
    await a.reaches(4)
    await show(a.client, stage.group)


@scenario
async def from_a_regex_to_names(stage: Stage) -> None:
    """The empty regular expression is none; its last subscriber removes it."""
    topic = await named_topic(stage, partitions=2)
    a = await by_regex(stage, "a", own(stage, "t.*"))
    await a.join()
    await a.reaches(2)
    log = await GroupLog.of(stage)
    await a.beat(subscribed_topic_regex="", subscribed_topic_names=[topic])
    await log.record("names")
    await show(a.client, stage.group)
    await a.beat(subscribed_topic_names=[])
    await log.record("nothing")


@scenario
async def another_regex(stage: Stage) -> None:
    """Another regular expression takes the partitions away until it is resolved."""
    await named_topics(stage, "one", "two", partitions=2)
    a = await by_regex(stage, "a", own(stage, "o.*"))
    await a.join()
    await a.reaches(2)
    await a.ack()
    await a.beat(subscribed_topic_regex=own(stage, "tw.*"))
    await a.acking().quiet()
    await a.reaches(3)
    await show(a.client, stage.group)


@scenario(waits=AGAIN_SECONDS)
async def a_second_regex(stage: Stage) -> None:
    """A further regular expression is resolved when ten seconds have passed since the last."""
    await named_topics(stage, "one", "two", partitions=2)
    a = await joined(await by_regex(stage, "a", own(stage, "o.*")))
    await a.reaches(2)
    began = time.monotonic()
    b = await by_regex(stage, "b", own(stage, "tw.*"))
    await b.join()
    await stage.settle(2)
    await b.beat()
    await show(a.client, stage.group)
    await b.reaches(3)
    stage.note("b has its topic", how_long(time.monotonic() - began, 5, 16))
    await a.beat()
    await show(a.client, stage.group)


@scenario(waits=AGAIN_SECONDS)
async def a_topic_more(stage: Stage) -> None:
    """A topic that is created later is found when ten seconds have passed."""
    await named_topic(stage, "one", partitions=2)
    a = await by_regex(stage, "a", own(stage, "o.*"))
    await a.join()
    await a.reaches(2)
    await named_topic(stage, "other", partitions=2)
    await a.beat()
    await a.reaches(3)
    await show(a.client, stage.group)


@scenario
async def a_topic_less(stage: Stage) -> None:
    """A topic that is deleted goes at once."""
    _, other = await named_topics(stage, "one", "other", partitions=2)
    a = await by_regex(stage, "a", own(stage, "o.*"))
    await a.join()
    await a.reaches(2)
    await stage.delete_topic(other)

    async def is_gone() -> bool:
        await a.acking().quiet()
        return a.epoch == 3

    await stage.until("the other topic is gone", is_gone)
    await show(a.client, stage.group)


@scenario
async def of_unlike_members(stage: Stage) -> None:
    """One member by name and one by regular expression share the topic."""
    topic = await named_topic(stage, partitions=4)
    a = await settled(stage, topic, "a")
    b = await joined(await by_regex(stage, "b", own(stage, "t.*")))
    await b.reaches(3)
    await settle([a, b])
    await show(a.client, stage.group)


@scenario
async def syntax(stage: Stage) -> None:
    """What Kafka takes as a regular expression, and what it refuses."""
    rare = [
        "(?=x)", "(?!x)", "(?<=x)", "(?<!x)", "(x)\\1", "x*+", "x++", "(?>x)", "(?x)x", "(?a)x",
        "(?u)x", "(?#c)x", "x{1001}", "x\\Z", "\\u0041", "[[:foo:]]", "[", "[]", "[b-a]", ")", "x)",
        "*", "+x", "?", "x**", "x*{2}", "\\", "\\8", "\\p{Foo}", "\\pX", "(?P<n", "(?P=n)",
        "(?P<n>x)(?P<n>y)", "(?", "x{2,1}", "[[=a=]]", "\\x{110000}", "\\cA", "\\e", "\\h", "\\R",
        "\\X", "\\G", "\\k<n>", "(?'n'x)", "(?i", "(?<1a>x)",
    ]  # fmt: skip
    common = [
        "(?<n>x)", "(?P<n>x)", "(?U)x", "(?-i)x", "\\Q.*\\E", "\\pL", "\\p{Greek}", "x\\z",
        "\\x{41}", "^*", "x{1000}", "x{,5}", "x{a}", "(?i)X", "(?s).", "(?m)^x$", "(?:x)",
        "\\d\\s\\w", "[[:alpha:]]", "[^[:^digit:]]", "\\A\\bx\\B", "\\C", "[\\d-z]", "x|", "()",
        "|", "\\07",
        "\\123", "\\x41", "\\P{L}", "\\p{^L}", "\\PL", "(?i:x)", "(?is-m)x", "x??", "x*?", "x+?",
        "x{2,}?", "\\a\\f\\t\\n\\r\\v", "[]a]", "[a-]", "[^]a]", "[-a]", "\\.\\-", "\u00e9",
        "[\u4e00-\u9fff]", "x{0}", "\\Qabc", "]", "}", "{", "a{1", "$^",
    ]  # fmt: skip
    a = await consumer(stage, "a")
    await joined(a, subscribed_topic_names=[])
    told = {
        regex: (await a.beating(subscribed_topic_regex=regex).quiet())["error_code"]
        for regex in (*rare, *common)
    }
    stage.note("codes", told)


@scenario
async def matching(stage: Stage) -> None:
    """Which topics some regular expressions match."""
    names = ("one", "One", "two.x", "two-x", "t_3", "33")
    for name in names:
        await stage.create_topic(name)
    await known_topic(stage, "last")
    patterns = (
        "(?i)ONE", "o(?-i)ne", "two.x", "two\\.x", "two\\Q.\\Ex", "[[:digit:]]+", "\\d{2}",
        "[^ot].*", "(one|t.*)", "\\w+", "t.+?", "\\x{6f}ne", "(?:o|O)ne", "\\p{Lu}ne", "\\PL+",
        "o{1}n{1,}e?",
    )  # fmt: skip
    for number, pattern in enumerate(patterns):
        group = same_shard(stage, f"{number}")
        a = await by_regex(stage, f"a{number}", own(stage, pattern), group=group)
        await joined(a)
        await stage.until("it is resolved", lambda one=a: resolved(one))  # type: ignore[misc]
        told = await a.client.quiet("ConsumerGroupDescribe", 1, group_ids=[group])
        listed = told["groups"][0]["members"][0]["assignment"]["topic_partitions"]
        stage.note(pattern, sorted(one["topic_name"] for one in listed))


async def resolved(one: PlayedConsumer) -> bool:
    """Heartbeat, unrecorded; whether the member is past the group's first epoch."""
    await one.acking().quiet()
    return one.epoch > 1
