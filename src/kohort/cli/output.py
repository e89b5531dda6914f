"""The output formats of results: `--output table|json|csv`.

A table is drawn by rich on a terminal. Elsewhere it is plain columns, a line per row, as Kafka's
own tools print them and `awk` reads them. JSON and CSV have the same content for programs: numbers
as numbers, null (an empty cell in CSV) where a table has "-".
"""

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TextIO

from kohort.cli.options import RefusedError

OUTPUTS: Final = ("table", "json", "csv")
NONE: Final = "-"
_GAP: Final = "  "


@dataclass(frozen=True, slots=True)
class Table:
    """Columns by Kafka's names, and a cell for each in every row; None is shown as "-"."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


def add_output_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        metavar="|".join(OUTPUTS),
        default="table",
        help="form of the output (default: table)",
    )


def check_output(options: argparse.Namespace) -> None:
    """Raises RefusedError."""
    if options.output not in OUTPUTS:
        raise RefusedError(f"--output {options.output}: is not one of {' | '.join(OUTPUTS)}")


def show(output: str, table: Table, as_json: object, *, to: TextIO | None = None) -> None:
    """One of the two, as `--output` says: JSON shows `as_json`, the others the table."""
    out = sys.stdout if to is None else to
    if output == "json":
        print(json.dumps(as_json, indent=2, ensure_ascii=False), file=out)
    elif output == "csv":
        _write_csv(table, out)
    elif out.isatty():
        _draw(table, out)
    else:
        _write_plain(table, out)


def _write_csv(table: Table, out: TextIO) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_csv_name(column) for column in table.columns])
    writer.writerows(["" if cell is None else cell for cell in row] for row in table.rows)


def _csv_name(column: str) -> str:
    """`LOG-END-OFFSET` → `log_end_offset`, `COORDINATOR (ID)` → `coordinator_id`."""
    letters = (
        each if each.isalnum() else "_" for each in column.lower().replace("#", "").replace(")", "")
    )
    return "_".join(part for part in "".join(letters).split("_") if part)


def _write_plain(table: Table, out: TextIO) -> None:
    lines = [list(map(str, table.columns)), *([_cell(cell) for cell in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print(_GAP.join(padded).rstrip(), file=out)


def _draw(table: Table, out: TextIO) -> None:
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for index, column in enumerate(table.columns):
        numbers = any(isinstance(row[index], int) for row in table.rows)
        drawn.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in table.rows:
        # Names are whatever their owners chose: as Text they are no markup.
        drawn.add_row(*(Text(_cell(cell)) for cell in row))
    Console(file=out).print(drawn)


def _cell(value: object) -> str:
    return NONE if value is None or value == "" else str(value)


def print_message(message: str) -> None:
    """One line for the person at the terminal, on stderr: results alone go to stdout."""
    print(f"kohort: {message}", file=sys.stderr)


def warn(message: str) -> None:
    print_message(f"warning: {message}")
