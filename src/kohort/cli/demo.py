"""`kohort demo`: a server, a year of flights, and a group at work on it (what `make run` starts)."""

from kohort.demo.main import add_arguments, run

__all__ = ["add_arguments", "run"]
