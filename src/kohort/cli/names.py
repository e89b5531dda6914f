"""Names of topics, groups and transactional ids: words of a command line, or values of an option.

`kohort topics describe orders` is `kohort topics describe --topic orders`.
"""

import argparse
from typing import Any


class Once(argparse.Action):
    """An option that is given at most once: of two values, none may be passed over."""

    def __call__(self, *given: Any, **_: Any) -> None:
        _parser, namespace, values, *_flag = given
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "is given twice")
        setattr(namespace, self.dest, values)


def add_name(parser: argparse.ArgumentParser, flag: str, metavar: str, help: str) -> None:
    """One name, which must be given. Its attribute is that of the flag."""
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
    """Any number of names, or at least one; a list, in the attribute of the flag."""
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
