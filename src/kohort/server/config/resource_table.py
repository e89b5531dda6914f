"""Configs of groups and of client metrics subscriptions, as Kafka 4.4 has them.

They are validated, kept and described, so that tools made for Kafka work. Those of consumer groups
(KIP-848) act, within the bounds of the broker. The others have no effect: they stand for the
protocols of KIP-932, KIP-1071 and KIP-714.
"""

import re
from dataclasses import replace
from typing import Final

from kohort.errors import ErrorCode, KafkaError
from kohort.server.config.definition import INT_MAX, Kind, Value
from kohort.server.config.topic_definition import TopicConfig

_NO_EFFECT: Final = "No effect: neither share groups nor groups of Kafka Streams are served."
_HEARTBEAT: Final = (5_000, 15_000)
_SESSION: Final = (45_000, 60_000)
_ANY: Final = (0, INT_MAX)
_DURATION: Final = re.compile(
    r"by_duration:P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9.]+S)?)?"
)
_MATCH: Final = re.compile(
    r"(client_instance_id|client_id|client_software_name|client_software_version"
    r"|client_source_address|client_source_port)=(.+)"
)
MAX_PATTERN: Final = 256
"""Characters of a pattern in `match`; longer ones take long to compile."""


class _Reset(TopicConfig):
    """`share.auto.offset.reset`, which may be a duration."""

    def parse(self, text: str) -> Value:
        if _DURATION.fullmatch(text.strip()):
            return text.strip()
        return TopicConfig.parse(self, text)


class _DeadLetterTopic(TopicConfig):
    """`errors.deadletterqueue.topic.name`, which is none of Kafka's own topics."""

    def parse(self, text: str) -> Value:
        if text.strip().startswith("__"):
            raise KafkaError(
                ErrorCode.invalid_config,
                f"{self.name} cannot start with '__': {text.strip()}",
            )
        return TopicConfig.parse(self, text)


def _group(
    name: str, default: Value, limits: tuple[int, int] = _ANY, *, kind: Kind = "int"
) -> TopicConfig:
    low, high = limits if kind == "int" else (None, None)
    return TopicConfig(
        name=name, kind=kind, default=default, doc=_NO_EFFECT, minimum=low, maximum=high
    )


def _internal(name: str, default: Value, limits: tuple[int, int] = _ANY) -> TopicConfig:
    kind: Kind = "boolean" if isinstance(default, bool) else "int"
    return replace(_group(name, default, limits, kind=kind), internal=True)


def _consumer(name: str, default: int, doc: str, *, minimum: int = 1) -> TopicConfig:
    """A config of consumer groups; the broker's bounds are judged apart."""
    return TopicConfig(
        name=f"consumer.{name}", kind="int", default=default, doc=doc, minimum=minimum
    )


def _validate_tags(name: str, words: tuple[str, ...]) -> None:
    if len(set(words)) < len(words):
        raise KafkaError(ErrorCode.invalid_config, f"{name} has a tag twice: {', '.join(words)}")


def _validate_patterns(name: str, words: tuple[str, ...]) -> None:
    for word in words:
        match = _MATCH.fullmatch(word)
        try:
            if match is None or len(word) > MAX_PATTERN:
                raise ValueError(word)
            re.compile(match[2])
        except (ValueError, re.error):
            raise KafkaError(
                ErrorCode.invalid_config, f"Illegal client matching pattern: {word} in {name}"
            ) from None


GROUP_CONFIGS: Final[dict[str, TopicConfig]] = {
    definition.name: definition
    for definition in (
        _consumer("session.timeout.ms", 45_000, "Session timeout of the group's members."),
        _consumer("heartbeat.interval.ms", 5_000, "Heartbeat interval of the group's members."),
        _consumer(
            "assignment.interval.ms", 1_000,
            "Minimum time between two target assignments of the group.", minimum=0,
        ),
        _group("share.session.timeout.ms", 45_000, _SESSION),
        _group("share.heartbeat.interval.ms", 5_000, _HEARTBEAT),
        _group("share.assignment.interval.ms", 1_000),
        _group("share.record.lock.duration.ms", 30_000, (15_000, 60_000)),
        _group("share.delivery.count.limit", 5, (2, 10)),
        _group("share.partition.max.record.locks", 2_000, (100, 10_000)),
        _group("share.renew.acknowledge.enable", True, kind="boolean"),
        _Reset(
            name="share.auto.offset.reset", kind="string", default="latest", doc=_NO_EFFECT,
            choices=("earliest", "latest"),
        ),
        TopicConfig(
            name="share.isolation.level", kind="string", default="read_uncommitted",
            doc=_NO_EFFECT, choices=("read_committed", "read_uncommitted"),
        ),
        _group("streams.session.timeout.ms", 45_000, _SESSION),
        _group("streams.heartbeat.interval.ms", 5_000, _HEARTBEAT),
        _group("streams.assignment.interval.ms", 1_000),
        _group("streams.initial.rebalance.delay.ms", 3_000),
        _group("streams.num.standby.replicas", 0, (0, 2)),
        _group("errors.deadletterqueue.copy.record.enable", False, kind="boolean"),
        _DeadLetterTopic(
            name="errors.deadletterqueue.topic.name", kind="string", default="", doc=_NO_EFFECT,
        ),
        TopicConfig(
            name="streams.assignor.name", kind="string", default="sticky", doc=_NO_EFFECT,
            choices=("sticky",), synonym="group.streams.assignors",
        ),
        TopicConfig(
            name="streams.rack.aware.assignment.tags", kind="list", default=(), doc=_NO_EFFECT,
            check=_validate_tags,
        ),
        _internal("streams.task.offset.interval.ms", 60_000, (15_000, INT_MAX)),
        _internal("streams.num.warmup.replicas", 2, (0, 20)),
        _internal("streams.acceptable.recovery.lag", 10_000, _ANY),
        _internal("consumer.assignor.offload.enable", True),
        _internal("share.assignor.offload.enable", True),
    )
}  # fmt: skip

OF_GROUPS_ONLY: Final = frozenset(
    {
        "errors.deadletterqueue.copy.record.enable",
        "errors.deadletterqueue.topic.name",
        "share.auto.offset.reset",
        "share.isolation.level",
        "share.renew.acknowledge.enable",
    }
)
"""Configs that are their own synonym: no broker config stands behind them."""

_NO_METRICS: Final = "No effect: clients are not asked for metrics."

CLIENT_METRICS_CONFIGS: Final[dict[str, TopicConfig]] = {
    definition.name: definition
    for definition in (
        TopicConfig(
            name="interval.ms", kind="int", default=300_000, doc=_NO_METRICS, minimum=100,
            maximum=3_600_000,
        ),
        TopicConfig(
            name="match", kind="list", default=(), doc=_NO_METRICS, check=_validate_patterns
        ),
        TopicConfig(name="metrics", kind="list", default=(), doc=_NO_METRICS),
    )
}  # fmt: skip
