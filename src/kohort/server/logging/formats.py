"""Formats of log lines: one event per line, as text or as JSON.

An event is a message and fields: `logger.info("rebalance", extra=fields(group="orders",
generation=3))`. As text the fields follow the message as `name=value`; as JSON they are members of
the object. An exception is one more field, never a traceback on the terminal, unless the level is
debug: the cause of most of them is the client.
"""

import json
import logging
import sys
import time
from functools import partial
from typing import Any

from kohort.server.logging.log_lines import LogLines
from kohort.util.printable import indented


def fields(**values: object) -> dict[str, dict[str, object]]:
    """The `extra=` of a logging call with which `values` become fields of the line."""
    return {"kohort_fields": values}


def configure(form: str, level: str, node: int | None = None) -> None:
    """Write the events of this process to standard error, in the form `text` or `json`.

    With `node`, each line has it as a field.
    """
    handler = _handler()
    if node is not None:
        handler.addFilter(partial(_name_node, node))
    traces = level == "debug"
    handler.setFormatter(JsonFormatter(traces) if form == "json" else TextFormatter(traces))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # asyncio's own debug lines say nothing of Kohort.
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _name_node(node: int, record: logging.LogRecord) -> bool:
    record.kohort_fields = fields(node=node)["kohort_fields"] | _own_fields(record)
    return True


def _handler() -> logging.Handler:
    try:
        return LogLines(sys.stderr.fileno())
    except (OSError, ValueError):  # replaced by an object in memory
        return logging.StreamHandler(sys.stderr)


class TextFormatter(logging.Formatter):
    """As in `2026-01-31T09:30:00.123Z info  kohort.groups: rebalance group=orders generation=3`."""

    def __init__(self, traces: bool = False) -> None:
        super().__init__()
        self._traces = traces

    def format(self, record: logging.LogRecord) -> str:
        line = (
            f"{_utc(record)} {record.levelname.lower():<7} {record.name}: "
            f"{_one_line(record.getMessage())}"
        )
        for name, value in _fields(record).items():
            line += f" {name}={_quoted(value)}"
        if self._traces and record.exc_info:
            line += "\n" + indented(self.formatException(record.exc_info))
        return line


class JsonFormatter(logging.Formatter):
    """`{"time": "…", "level": "info", "logger": "kohort.groups", "event": "rebalance", "group":
    "orders"}`
    """

    def __init__(self, traces: bool = False) -> None:
        super().__init__()
        self._traces = traces

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _utc(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= _fields(record)
        if self._traces and record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _utc(record: logging.LogRecord) -> str:
    return (
        f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03}Z"
    )


def _own_fields(record: logging.LogRecord) -> dict[str, Any]:
    return dict(getattr(record, "kohort_fields", {}))


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    own_fields = _own_fields(record)
    if record.exc_info and record.exc_info[1] is not None:
        own_fields["error"] = _summary(record.exc_info[1])
    return own_fields


def _summary(error: BaseException) -> str:
    """The error and its location, on one line."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    location = (
        "" if trace is None else (f" ({trace.tb_frame.f_code.co_qualname}, line {trace.tb_lineno})")
    )
    return f"{type(error).__name__}: {error}{location}"


def _quoted(value: object) -> str:
    """The value of a field, quoted unless it is one word: clients choose ids and reasons."""
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, default=str)
    text = str(value)
    plain = text.isprintable() and text != "" and not any(letter in text for letter in ' "=')
    return text if plain else json.dumps(text)


def _one_line(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)[1:-1]
