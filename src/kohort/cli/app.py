"""The top of the command line: what commands there are, `--version`, and help."""

import importlib
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

COMMANDS: Final = {
    "serve": "kohort.cli.serve",
    "config": "kohort.cli.config",
}
"""Command -> the module whose `app` it is, imported when the command is named."""


class Commands(TyperGroup):
    """A group whose commands are imported one by one, as they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command = typer.main.get_command(importlib.import_module(module).app)
        command.name = cmd_name
        return command


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 failed while running, 2 refused: wrong options or configuration, "
    "port or data directory in use.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from kohort import __version__

        print(f"kohort {__version__}")
        raise typer.Exit


@app.callback()
def kohort(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Kafka consumer groups, whole, in Python.

    `kohort serve` is a server that any Kafka client can join; `kohort config` explains every setting.
    """
