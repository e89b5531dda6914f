"""Names here for commands and options of Kafka's scripts and kcat, for error messages."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

_COMMANDS: Final = {
    "broker": "serve",
    "cat": "consume",
    "console-consumer": "consume",
    "console-producer": "produce",
    "consumer": "consume",
    "consumer-groups": "groups",
    "create": "topics create",
    "delete": "topics delete, or groups delete",
    "describe": "topics describe, or groups describe",
    "lag": "groups describe",
    "list": "topics list, or groups list",
    "producer": "produce",
    "read": "consume",
    "reset": "groups reset",
    "run": "serve",
    "send": "produce",
    "server": "serve",
    "server-start": "serve",
    "start": "serve",
    "write": "produce",
}
_CLIENT: Final = {
    "--command-property": "-X",
    "--zookeeper": "-b with a broker",
}
_RECORDS: Final = {
    **_CLIENT,
    "--broker-list": "-b",
    "--partition": "-p",
}
_OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "consume": {
        **_RECORDS,
        "--consumer-property": "-X",
        "--consumer.config": "-F",
        "--formatter-property": "-f FORMAT",
        "--from-beginning": "-o beginning (with -G: -X auto.offset.reset=earliest)",
        "--isolation-level": "-X isolation.level=…",
        "--max-messages": "-c",
        "--offset": "-o",
        "--property": r"-f FORMAT (print.key: -f '%k\t%s\n')",
        "--timeout-ms": "-e, which ends at the end of the topic",
        "-C": "kohort consume itself",
        "-P": "kohort produce",
    },
    "produce": {
        **_RECORDS,
        "--compression-codec": "-z",
        "--producer-property": "-X",
        "--producer.config": "-F",
        "--property": r"-K DELIMITER (parse.key: -K '\t')",
        "--reader-property": r"-K DELIMITER (parse.key: -K '\t')",
        "--request-required-acks": "-X acks=…",
        "-C": "kohort consume",
        "-L": "kohort consume -L",
        "-P": "kohort produce itself",
        "-Q": "kohort consume -Q",
    },
    "serve": {
        "--bind": "--listen HOST:PORT",
        "--host": "--listen HOST:PORT",
        "--port": "--listen HOST:PORT",
        "--override": "--set",
    },
}
_OF_KCAT: Final = {"-P": "kohort produce", "-L": "kohort consume -L", "-Q": "kohort consume -Q"}


def command(name: str) -> str | None:
    """The command that another tool has as `name`, such as `kafka-console-consumer.sh`."""
    return _COMMANDS.get(name.removesuffix(".sh").removeprefix("kafka-"))


def hint(name: str, unknown: Sequence[str]) -> str:
    """For the end of an error about arguments that `kohort NAME` does not have; "" if none helps.

    Without a command `name` is "": kcat has none.
    """
    flags = [argument.partition("=")[0] for argument in unknown if argument.startswith("-")]
    if not name:
        if list(unknown) in (["-v"], ["-V"]):
            return "; did you mean --version?"
        if not any(re.fullmatch("-[A-Za-z]", flag) for flag in flags):
            return ""
        commands = [_OF_KCAT[flag] for flag in flags if flag in _OF_KCAT]
        return f"; kcat's options are those of {commands[0] if commands else 'kohort consume'}"
    if name == "serve" and not flags:
        return "; give an address by --listen HOST:PORT, a setting by --set NAME=VALUE"
    equivalent = _OPTIONS.get(name, _CLIENT)
    equivalents = [
        f"{flag} is {equivalent[flag]}" for flag in dict.fromkeys(flags) if flag in equivalent
    ]
    return f"; here {', '.join(equivalents)}" if equivalents else ""
