"""Decisions on changes of the metadata, one manager a concern; each returns records."""

from kohort.server.controller.acl_control import AclControl
from kohort.server.controller.client_quota_control import ClientQuotaControl
from kohort.server.controller.configuration_control import ConfigurationControl
from kohort.server.controller.producer_id_control import ProducerIdControl
from kohort.server.controller.producer_id_manager import ProducerIdManager
from kohort.server.controller.scram_control import ScramControl

__all__ = [
    "AclControl",
    "ClientQuotaControl",
    "ConfigurationControl",
    "ProducerIdControl",
    "ProducerIdManager",
    "ScramControl",
]
