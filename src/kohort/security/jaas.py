"""Options of a login module in the syntax of Kafka's `sasl.jaas.config`.

org.apache.kafka.common.security.plain.PlainLoginModule required
    user_alice="alice's secret" user_bob="bob's secret";
"""

import re
from collections.abc import Mapping
from typing import Final

PLAIN_LOGIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOGIN_MODULES: Final[Mapping[str, str]] = {
    "PLAIN": PLAIN_LOGIN_MODULE,
    "SCRAM-SHA-256": SCRAM_LOGIN_MODULE,
    "SCRAM-SHA-512": SCRAM_LOGIN_MODULE,
}
"""SASL mechanisms for inter-broker authentication → login modules."""

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_USER: Final = "user_"
_OPTION: Final = re.compile(
    r'\s+(?P<name>[^\s=";]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s=";]+))',
    re.DOTALL,
)
_HEAD: Final = re.compile(r"\s*([^\s=\";]+)\s+([^\s=\";]+)")
_END: Final = re.compile(r"\s*;\s*")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def parse_jaas_config(text: str) -> tuple[str, dict[str, str]]:
    """Name of the login module, and its options.

    Raises ValueError; its text quotes nothing of `text`, which has passwords.
    """
    head = _HEAD.match(text)
    if head is None or head[2].lower() not in _FLAGS:
        raise ValueError('it is not of the form MODULE required NAME="VALUE" …;')
    options: dict[str, str] = {}
    position = head.end()
    while option := _OPTION.match(text, position):
        quoted = option["quoted"]
        if option["name"] in options:
            raise ValueError(f"option {len(options) + 1} was given before")
        options[option["name"]] = option["bare"] if quoted is None else _ESCAPED.sub(r"\1", quoted)
        position = option.end()
    if not _END.fullmatch(text, position):
        raise ValueError(f'after {len(options)} options, neither NAME="VALUE" nor the final ;')
    return head[1], options


def plain_users(text: str) -> Mapping[str, str]:
    """Passwords by user of a `plain.sasl.jaas.config`. Raises ValueError as `parse_jaas_config`.

    `username` and `password`, for connections to other brokers, are left out.
    """
    module, options = parse_jaas_config(text)
    if module != PLAIN_LOGIN_MODULE:
        raise ValueError(f"the login module of PLAIN is {PLAIN_LOGIN_MODULE}")
    users = {
        name.removeprefix(_USER): value for name, value in options.items() if name.startswith(_USER)
    }
    if not all(users) or not all(users.values()):
        raise ValueError("a user has no name or no password")
    return users


def own_login(text: str, mechanism: str) -> tuple[str, str]:
    """Name and password of a broker for other brokers, for a mechanism of `LOGIN_MODULES`.

    Raises ValueError as `parse_jaas_config`.
    """
    module, options = parse_jaas_config(text)
    if module != LOGIN_MODULES[mechanism]:
        raise ValueError(f"the login module of {mechanism} is {LOGIN_MODULES[mechanism]}")
    username, password = options.get("username"), options.get("password")
    if not username or not password:
        raise ValueError("brokers need username and password, to authenticate with each other")
    return username, password
