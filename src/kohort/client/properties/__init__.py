"""Reads properties and options: other clients' names, files, layers, and hints in errors."""

from kohort.client.properties.fields import (
    DURATION_FIELDS,
    RECOVERY_PROPERTIES,
    SECURITY_FIELDS,
    jaas_credentials,
    jaas_options,
    recovery_fields,
)
from kohort.client.properties.java_properties import read_properties
from kohort.client.properties.layers import LIBRDKAFKA, contradiction, in_javas_names, over
from kohort.client.properties.option_errors import OptionErrors, RefusedOptionsError
from kohort.client.properties.option_names import (
    checks_arguments,
    explains_arguments,
    shows_options,
)

__all__ = [
    "DURATION_FIELDS",
    "LIBRDKAFKA",
    "RECOVERY_PROPERTIES",
    "SECURITY_FIELDS",
    "OptionErrors",
    "RefusedOptionsError",
    "checks_arguments",
    "contradiction",
    "explains_arguments",
    "in_javas_names",
    "jaas_credentials",
    "jaas_options",
    "over",
    "read_properties",
    "recovery_fields",
    "shows_options",
]
