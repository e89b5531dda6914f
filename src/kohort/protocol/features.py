"""The features that ApiVersions names (KIP-584): levels that a cluster has agreed on.

`metadata.version` stands for the release: 33 is Apache Kafka 4.4. With `transaction.version` 2
clients use transactions by KIP-890, with `group.version` 1 the consumer protocol of KIP-848. The
others of Kafka 4.4 (`share.version`, `streams.version`, …) turn on protocols that are not served.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature: the levels that are supported, and the one in force."""

    first: int
    last: int
    level: int


FEATURES: Final = MappingProxyType(
    {
        "group.version": Feature(first=0, last=1, level=1),
        "metadata.version": Feature(first=7, last=33, level=33),
        "transaction.version": Feature(first=0, last=2, level=2),
    }
)

EPOCH: Final = 0
"""Epoch of the levels in force, which never change."""
