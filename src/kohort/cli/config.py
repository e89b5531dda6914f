"""Show the configuration of `kohort serve` with the same options.

Each setting has its value, its source, and its meaning. Flags override the environment
(KOHORT_NUM_PARTITIONS), which overrides a TOML file (--config), which overrides the defaults.
"""

import argparse
import csv
import io
import json
import sys

from kohort.cli import options as cli_options
from kohort.cli.output import Table, print_message, show
from kohort.server.config import TABLE, Config, Password, Setting, as_text
from kohort.util.text import did_you_mean

_FIELDS = ("name", "value", "source", "default", "type", "valid", "environment", "documentation")
_SHORT = ("name", "value", "source", "documentation")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="show only this setting")
    parser.add_argument(
        "--all",
        action="store_true",
        help=("also show type, default, range and environment variable"),
    )
    parser.add_argument(
        "--output",
        metavar="|".join(_WRITERS),
        default="table",
        help="output format (default: table)",
    )
    cli_options.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    if options.output not in _WRITERS:
        raise cli_options.RefusedError(
            f"--output {options.output}: is not one of {' | '.join(_WRITERS)}"
        )
    if options.name is not None and options.name not in TABLE:
        raise cli_options.RefusedError(
            f"{options.name}: unknown name{did_you_mean(options.name, TABLE)}"
        )
    settings = cli_options.load_config(options)
    if options.name is not None and options.output == "table":
        _explain(settings.setting(options.name))
    else:
        _WRITERS[options.output](_rows(settings, options.name), options.all)
    return 0


def _rows(settings: Config, name: str | None) -> list[dict[str, object]]:
    return [
        _row(settings.setting(setting_name))
        for setting_name in settings
        if name is None or setting_name == name
    ]


def _row(setting: Setting) -> dict[str, object]:
    definition = setting.definition
    values = (
        definition.name, _visible(setting.value), setting.source, definition.default,
        definition.kind, definition.valid, definition.environment, definition.doc,
    )  # fmt: skip
    return dict(zip(_FIELDS, values, strict=True))


def _visible(value: object) -> object:
    return as_text(value) if isinstance(value, Password) else value


def _write_table(rows: list[dict[str, object]], show_all: bool) -> None:
    columns = _FIELDS if show_all else _SHORT
    if not sys.stdout.isatty():  # Output to a pipe or file has one line per setting.
        cells = [[_cell(row[column]) for column in columns] for row in rows]
        show("table", Table(columns, cells), None)
    elif show_all:
        _draw(rows)
    else:
        _draw_short(rows)


def _draw(rows: list[dict[str, object]]) -> None:
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    table = Drawn(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in _FIELDS:
        table.add_column(column, overflow="fold", no_wrap=column in ("name", "environment"))
    for row in rows:
        table.add_row(*(Text(_cell(row[column]), _style(row)) for column in _FIELDS))
    Console().print(table)


def _draw_short(rows: list[dict[str, object]]) -> None:
    """A line for each setting: name, value, source, and as much of the help as fits."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    names = max(len(_cell(row["name"])) for row in rows)
    for row in rows:
        source = "" if row["source"] == "default" else f" ({row['source']})"
        line = f"{row['name']:<{names}}  {_cell(row['value'])}{source}"
        if len(line) < console.width // 2:
            line = f"{line:<{console.width // 2}}  {row['documentation']}"
        console.print(Text(line, _style(row)), no_wrap=True, overflow="ellipsis")
    print_message("kohort config NAME explains a setting, --all shows all of it")


def _style(row: dict[str, object]) -> str:
    return "" if row["source"] == "default" else "bold cyan"


def _write_json(rows: list[dict[str, object]], _show_all: bool) -> None:
    print(json.dumps(rows, indent=2))


def _write_csv(rows: list[dict[str, object]], _show_all: bool) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_FIELDS)
    writer.writerows([_cell(value) for value in row.values()] for row in rows)
    print(text.getvalue(), end="")


def _write_markdown(rows: list[dict[str, object]], _show_all: bool) -> None:
    """The table of docs/configuration.md."""
    print("| name | type | default | valid | what it does |\n|---|---|---|---|---|")
    for row in rows:
        valid = str(row["valid"]).replace(" | ", ", ")
        print(
            f"| `{row['name']}` | {row['type']} | {_cell(row['default'])} | {valid} | "
            f"{row['documentation']} |"
        )


_WRITERS = {
    "table": _write_table,
    "json": _write_json,
    "csv": _write_csv,
    "markdown": _write_markdown,
}


def _explain(setting: Setting) -> None:
    definition = setting.definition
    print(f"{definition.name} = {_cell(_visible(setting.value))}")
    print(f"  {definition.doc}")
    print(
        f"  source: {setting.source}; type: {definition.kind}; default: {_cell(definition.default)}"
    )
    if definition.valid:
        print(f"  valid: {definition.valid}")
    print(f"  environment: {definition.environment}; flag: --set {definition.name}=…")


def _cell(value: object) -> str:
    text = as_text(value) if isinstance(value, bool | tuple) else value
    return "null" if text is None else str(text)
