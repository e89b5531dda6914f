"""Maps the property names of Java's and librdkafka's clients to the fields here."""

import re
from collections.abc import Mapping
from typing import Final

from kohort.errors import ConfigError

DURATION_FIELDS: Final = {
    "request.timeout.ms": "request_timeout_ms",
    "socket.connection.setup.timeout.ms": "socket_connection_setup_timeout_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "metadata.recovery.rebootstrap.trigger.ms": "metadata_recovery_rebootstrap_trigger_ms",
}
"""Property → field of `ClientConfig`, in ms."""
RECOVERY_PROPERTIES: Final = {
    "metadata.recovery.strategy": "metadata_recovery_strategy",
    "metadata.cluster.check.enable": "metadata_cluster_check_enable",
}
"""Property → field of `ClientConfig`, as `recovery_fields` reads it."""
SECURITY_FIELDS: Final = {
    "security.protocol": "protocol",
    "sasl.mechanism": "mechanism",
    "sasl.username": "username",
    "sasl.password": "password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.truststore.location": "ssl_cafile",
    "ssl.keystore.location": "ssl_certfile",
}
"""Property → field of `Security`, as text."""
_JAAS_OPTION: Final = re.compile(
    r"""\b(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
)


def recovery_fields(properties: Mapping[str, str]) -> dict[str, str | bool]:
    """The fields of `ClientConfig` in `RECOVERY_PROPERTIES`. Raises ConfigError."""
    fields: dict[str, str | bool] = {}
    if (strategy := properties.get("metadata.recovery.strategy")) is not None:
        fields["metadata_recovery_strategy"] = strategy.strip().lower()  # as Java, in any case
    if (check := properties.get("metadata.cluster.check.enable")) is not None:
        if (flag := check.strip().lower()) not in ("true", "false"):
            raise ConfigError(f"metadata.cluster.check.enable={check}: it has to be true or false")
        fields["metadata_cluster_check_enable"] = flag == "true"
    return fields


def jaas_options(jaas: str) -> dict[str, str]:
    """The options of a `sasl.jaas.config` line.

    As in Java, a value is in double or single quotes, or in none.
    """
    options = {
        name: (twice or once, bare) for name, twice, once, bare in _JAAS_OPTION.findall(jaas)
    }
    return {
        name: bare or re.sub(r"\\(.)", r"\1", quoted) for name, (quoted, bare) in options.items()
    }


def jaas_credentials(jaas: str) -> dict[str, str]:
    """`username` and `password` of a `sasl.jaas.config` line, if it has them."""
    options = jaas_options(jaas)
    return {name: options[name] for name in ("username", "password") if name in options}
