"""Log lines of a server: their formats, the thread that writes them, levels, the audit log."""

from kohort.server.logging.audit import AuditLog
from kohort.server.logging.formats import configure, fields
from kohort.server.logging.loggers import levels, set_level, validate_level

__all__ = [
    "AuditLog",
    "configure",
    "fields",
    "levels",
    "set_level",
    "validate_level",
]
