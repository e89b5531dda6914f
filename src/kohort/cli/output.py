"""The output formats of results: `--output table|json|csv`.

A table is written by rich on a terminal, in colours unless NO_COLOR is set. Elsewhere it is plain
columns, a line per row, as Kafka's own tools print them and `awk` reads them. JSON and CSV have the
same content for programs: numbers as numbers, null (an empty cell in CSV) where a table has "-".
"""

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

from kohort.cli.options import RefusedError
from kohort.util.printable import printable

if TYPE_CHECKING:
    from rich.text import Text

OUTPUTS: Final = ("table", "json", "csv")
NONE: Final = "-"
_GAP: Final = "  "
_ALARMING: Final = {"STATUS": "Error", "KIND": "RESET"}
"""Column → how red cells begin."""


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
        help="output format (default: table)",
    )


def check_output(options: argparse.Namespace) -> None:
    """Raises RefusedError."""
    if options.output not in OUTPUTS:
        raise RefusedError(f"--output {options.output}: is not one of {' | '.join(OUTPUTS)}")


def show(output: str, table: Table, as_json: object, *, to: TextIO | None = None) -> None:
    """Print in the format of `--output`: JSON prints `as_json`, the others the table."""
    out = sys.stdout if to is None else to
    if output == "json":
        print(json.dumps(as_json, indent=2, ensure_ascii=False), file=out)
    elif output == "csv":
        write_csv(_csv([map(_csv_name, table.columns), *table.rows]), out)
    elif out.isatty():
        _draw(table, out)
    else:
        _write_plain(table, out)


def write_csv(text: str, out: TextIO | None = None) -> None:
    """Print CSV unchanged for programs, and with escaped cells on a terminal."""
    out = sys.stdout if out is None else out
    if out.isatty():
        rows = csv.reader(io.StringIO(text, newline=""))
        text = _csv([printable(cell) for cell in row] for row in rows)
    print(text, end="", file=out)


def _csv(rows: Iterable[Iterable[object]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(
        ["" if cell is None else cell for cell in row] for row in rows
    )
    return text.getvalue()


def _csv_name(column: str) -> str:
    """`LOG-END-OFFSET` → `log_end_offset`, `COORDINATOR (ID)` → `coordinator_id`."""
    letters = (
        letter if letter.isalnum() else "_"
        for letter in column.lower().replace("#", "").replace(")", "")
    )
    return "_".join(part for part in "".join(letters).split("_") if part)


def _write_plain(table: Table, out: TextIO) -> None:
    lines = [list(map(str, table.columns)), *([_cell(cell) for cell in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print(_GAP.join(padded).rstrip(), file=out)


def _draw(table: Table, out: TextIO) -> None:
    """Print the table in full width: a narrower terminal wraps whole lines.

    Cells are not folded: a member id in pieces can be neither read nor copied.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out)
    # As Text, so that names are not taken for markup.
    columns = [
        _aligned(
            [
                Text(name, "bold"),
                *(Text(_cell(row[index]), _style(name, row[index])) for row in table.rows),
            ],
            to_the_right=any(isinstance(row[index], int | float) for row in table.rows),
        )
        for index, name in enumerate(table.columns)
    ]
    for line in zip(*columns, strict=True):
        text = Text(_GAP).join(line)
        text.rstrip()
        console.print(text, soft_wrap=True)


def _aligned(cells: list["Text"], *, to_the_right: bool) -> list["Text"]:
    width = max(cell.cell_len for cell in cells)
    for cell in cells:
        missing = width - cell.cell_len
        if to_the_right:
            cell.pad_left(missing)
        else:
            cell.pad_right(missing)
    return cells


def _style(column: str, cell: object) -> str:
    """The colour of states, lag and errors; none with NO_COLOR."""
    if column == "STATE":
        return "green" if cell in ("Stable", "serving") else "yellow"
    if column in ("LAG", "LAG-SECONDS") and isinstance(cell, int | float):
        return "yellow" if cell else "green"
    if column == "LOST" and cell:
        return "red"
    is_alarming = _ALARMING.get(column)
    return "red" if is_alarming is not None and str(cell).startswith(is_alarming) else ""


def _cell(value: object) -> str:
    return NONE if value is None or value == "" else printable(str(value))


def print_line(text: str, *, to: TextIO | None = None) -> None:
    """Print one line to `to`, by default standard output."""
    print(printable(text), file=to, flush=True)


def print_message(message: str) -> None:
    """Print one line for the user to stderr: stdout has only results."""
    print_line(f"kohort: {message}", to=sys.stderr)


def warn(message: str) -> None:
    print_message(f"warning: {message}")
