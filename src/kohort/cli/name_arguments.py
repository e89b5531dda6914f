"""Names of topics, groups and transactional ids: words of a command line, or values of an option.

`kohort topics describe orders` is `kohort topics describe --topic orders`.
"""

import argparse
from typing import Any


class Once(argparse.Action):
    """An option that may be given once. A second value is an error, not an override."""

    def __call__(self, *arguments: Any, **_: Any) -> None:
        _parser, namespace, values, *_option = arguments
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "is given twice")
        setattr(namespace, self.dest, values)


def add_name(parser: argparse.ArgumentParser, flag: str, metavar: str, help: str) -> None:
    """One required name. Its attribute is that of the flag."""
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument(
        _attribute(flag),
        metavar=metavar,
        nargs="?",
        action=Once,
        default=argparse.SUPPRESS,  # None would overwrite the value of the option
        help=help,
    )
    either.add_argument(flag, metavar=metavar, action=Once, help="the same, as an option")


def add_names(
    parser: argparse.ArgumentParser, flag: str, metavar: str, help: str, *, required: bool = False
) -> None:
    """Any number of names, at least one if `required`. The attribute of the flag has the list."""
    either = parser.add_mutually_exclusive_group(required=True) if required else parser
    either.add_argument(
        _attribute(flag),
        metavar=metavar,
        nargs="*",
        action="extend",
        default=argparse.SUPPRESS,
        help=f"{help}; repeatable",
    )
    either.add_argument(
        flag, metavar=metavar, action="append", default=[], help="the same, as an option"
    )


def _attribute(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")
