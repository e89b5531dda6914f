"""Levels of this process's loggers, by Kafka's names (KIP-412)."""

import logging
from collections.abc import Iterator
from typing import Final

from kohort.errors import ErrorCode, KafkaError

ROOT: Final = "root"
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
"""Kafka's names, the least verbose first; TRACE is finer than all that Python names."""


def levels() -> Iterator[tuple[str, str]]:
    """(name, level in force) of each logger."""
    yield ROOT, _name(logging.getLogger())
    for name, logger in sorted(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            yield name, _name(logger)


def _name(logger: logging.Logger) -> str:
    number = logger.getEffectiveLevel()
    return next((name for name, least in LEVELS.items() if number >= least), "TRACE")


def validate_level(name: str, level: str | None) -> None:
    """Raise KafkaError unless the logger can be set to the level; None: to that of its parent."""
    if name != ROOT and not isinstance(logging.root.manager.loggerDict.get(name), logging.Logger):
        raise KafkaError(ErrorCode.invalid_config, f"Logger {name} does not exist!")
    if level is None:
        if name == ROOT:
            raise KafkaError(
                ErrorCode.invalid_request,
                "Removing the log level of the root logger is not allowed",
            )
    elif level not in LEVELS:
        raise KafkaError(
            ErrorCode.invalid_config,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}",
        )


def set_level(name: str, level: str | None) -> None:
    """Set a level that was validated."""
    logger = logging.getLogger(None if name == ROOT else name)
    logger.setLevel(logging.NOTSET if level is None else LEVELS[level])
