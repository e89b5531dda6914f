"""Principals, and the client and listener of a connection: values without I/O."""

from kohort.security.mapping_rules import MappingRules
from kohort.security.peer import Endpoint, Peer, SecurityProtocol
from kohort.security.principal import ANONYMOUS, LOCAL, USER, KafkaPrincipal
from kohort.security.x500 import alternative_names, subject_name, validity

__all__ = [
    "ANONYMOUS",
    "LOCAL",
    "USER",
    "Endpoint",
    "KafkaPrincipal",
    "MappingRules",
    "Peer",
    "SecurityProtocol",
    "alternative_names",
    "subject_name",
    "validity",
]
