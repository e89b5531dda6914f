"""`kohort config`: every setting with its value, where that came from, and what it does."""

import csv
import io
import json
import sys
from typing import Annotated

import typer

from kohort.cli import options
from kohort.server.config import Config, Setting
from kohort.server.config_def import as_text
from kohort.server.config_sources import did_you_mean
from kohort.server.config_table import TABLE

app = typer.Typer(pretty_exceptions_enable=False)
_FIELDS = ("name", "value", "source", "default", "type", "valid", "environment", "documentation")


@app.command()
def config(
    name: Annotated[str | None, typer.Argument(help="One setting to explain.", show_default=False)] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Show type, default, range and environment variable too.")
    ] = False,
    output: Annotated[str, typer.Option(metavar="table|json|csv|markdown", help="Form of the answer.")] = "table",
    listen: options.Listen = None,
    advertise: options.Advertise = None,
    data: options.Data = None,
    memory: options.Memory = False,
    dev: options.Dev = False,
    durability: options.Durability = None,
    http: options.Http = None,
    insecure: options.Insecure = False,
    file: options.File = None,
    sets: options.Sets = None,
    log_format: options.LogFormat = None,
    log_level: options.LogLevel = None,
) -> None:
    """Show how `kohort serve` with the same options would be configured, and where each value comes from.

    Flags win over the environment (KOHORT_NUM_PARTITIONS), that over a TOML file (--config), that over
    defaults.
    """
    if output not in _WRITERS:
        options.refuse(f"--output {output}: is not one of {' | '.join(_WRITERS)}")
    if name is not None and name not in TABLE:
        options.refuse(f"{name}: unknown name{did_you_mean(name, TABLE)}")
    settings = options.load_config_or_exit(
        listen=listen, advertise=advertise, data=data, memory=memory, dev=dev, durability=durability,
        http=http, insecure=insecure, file=file, sets=sets or (), log_format=log_format, log_level=log_level,
    )  # fmt: skip
    if name is not None and output == "table":
        _explain(settings.setting(name))
    else:
        _WRITERS[output](_rows(settings, name), show_all)


def _rows(settings: Config, name: str | None) -> list[dict[str, object]]:
    return [_row(settings.setting(one)) for one in settings if name is None or one == name]


def _row(setting: Setting) -> dict[str, object]:
    definition = setting.definition
    values = (
        definition.name, setting.value, setting.source, definition.default, definition.kind,
        definition.valid, definition.environment, definition.doc,
    )  # fmt: skip
    return dict(zip(_FIELDS, values, strict=True))


def _write_table(rows: list[dict[str, object]], show_all: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    columns = _FIELDS if show_all else ("name", "value", "source", "documentation")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("name", "environment"))
    for row in rows:
        style = None if row["source"] == "default" else "bold cyan"
        table.add_row(*(_cell(row[column]) for column in columns), style=style)
    # What is piped into grep or a file has one line per setting.
    Console(width=None if sys.stdout.isatty() else 400).print(table)


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
        default = _cell(row["default"])
        print(f"| `{row['name']}` | {row['type']} | {default} | {valid} | {row['documentation']} |")


_WRITERS = {"table": _write_table, "json": _write_json, "csv": _write_csv, "markdown": _write_markdown}


def _explain(setting: Setting) -> None:
    definition = setting.definition
    print(f"{definition.name} = {_cell(setting.value)}")
    print(f"  {definition.doc}")
    print(f"  source: {setting.source}; type: {definition.kind}; default: {_cell(definition.default)}")
    if definition.valid:
        print(f"  valid: {definition.valid}")
    print(f"  environment: {definition.environment}; flag: --set {definition.name}=…")


def _cell(value: object) -> str:
    text = as_text(value) if isinstance(value, bool | tuple) else value
    return "null" if text is None else str(text)
