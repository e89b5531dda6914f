"""Settings of a server and of its topics, by Kafka's names."""

from kohort.server.config.config import Config, Setting
from kohort.server.config.coordinator_settings import (
    group_coordinator_config,
    shows_restarts,
    transaction_coordinator_config,
)
from kohort.server.config.definition import Password, as_text
from kohort.server.config.group_configs import consumer_group_config
from kohort.server.config.inter_broker import InterBroker, NodeLogin
from kohort.server.config.listeners import ListenerConfig, certificates_of, definition_of
from kohort.server.config.resource_configs import (
    altered,
    describe_all_brokers,
    describe_broker,
    describe_resource,
    validate_broker_configs,
    validate_configs,
)
from kohort.server.config.resources import ResourceType, validate_broker_id
from kohort.server.config.sources import (
    FLAG,
    SET,
    RawSetting,
    Source,
    read_environment,
    read_sets,
    read_toml,
)
from kohort.server.config.storage_url import (
    in_postgres,
    parse_storage,
    storage_without_secrets,
    waits_for_disk,
)
from kohort.server.config.table import DYNAMIC, RELOADABLE, TABLE
from kohort.server.config.topic_configs import (
    CONFIG_TYPES,
    BrokerConfig,
    ConfigChange,
    ConfigEntry,
    Operation,
    Synonym,
    altered_topic_configs,
    describe_topic_configs,
    effective_topic_configs,
    topic_log_config,
    validate_topic_configs,
)

__all__ = [
    "CONFIG_TYPES",
    "DYNAMIC",
    "FLAG",
    "RELOADABLE",
    "SET",
    "TABLE",
    "BrokerConfig",
    "Config",
    "ConfigChange",
    "ConfigEntry",
    "InterBroker",
    "ListenerConfig",
    "NodeLogin",
    "Operation",
    "Password",
    "RawSetting",
    "ResourceType",
    "Setting",
    "Source",
    "Synonym",
    "altered",
    "altered_topic_configs",
    "as_text",
    "certificates_of",
    "consumer_group_config",
    "definition_of",
    "describe_all_brokers",
    "describe_broker",
    "describe_resource",
    "describe_topic_configs",
    "effective_topic_configs",
    "group_coordinator_config",
    "in_postgres",
    "parse_storage",
    "read_environment",
    "read_sets",
    "read_toml",
    "shows_restarts",
    "storage_without_secrets",
    "topic_log_config",
    "transaction_coordinator_config",
    "validate_broker_configs",
    "validate_broker_id",
    "validate_configs",
    "validate_topic_configs",
    "waits_for_disk",
]
