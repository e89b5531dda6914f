"""`kohort demo`: a server, a year of flights, and a group that reads them; `make run` starts it."""

from kohort.demo.main import add_arguments, run

__all__ = ["add_arguments", "run"]
