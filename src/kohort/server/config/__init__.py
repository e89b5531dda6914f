"""Settings of a server and of its topics, by Kafka's names."""

from kohort.server.config import topic_configs
from kohort.server.config.config import Config, Setting
from kohort.server.config.definition import as_text
from kohort.server.config.resources import ResourceType, validate_broker_id
from kohort.server.config.sources import FLAG, Given, read_environment, read_sets, read_toml
from kohort.server.config.table import TABLE
from kohort.server.config.topic_configs import (
    CONFIG_TYPES,
    BrokerConfig,
    Change,
    ConfigEntry,
    Operation,
    Source,
    Synonym,
    describe,
)

__all__ = [
    "CONFIG_TYPES",
    "FLAG",
    "TABLE",
    "BrokerConfig",
    "Change",
    "Config",
    "ConfigEntry",
    "Given",
    "Operation",
    "ResourceType",
    "Setting",
    "Source",
    "Synonym",
    "as_text",
    "describe",
    "read_environment",
    "read_sets",
    "read_toml",
    "topic_configs",
    "validate_broker_id",
]
