"""Make `questions.ipynb` from `questions.py`: python examples/history/notebook.py

A cell begins with `# %%`, a text with `# %% [markdown]`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def cells(script: str) -> Iterator[dict[str, Any]]:
    """The cells of a script, in the form of a notebook."""
    for part in script.split("# %%")[1:]:
        title, _, body = part.partition("\n")
        lines = body.strip("\n").splitlines()
        is_text = "[markdown]" in title
        if is_text:
            lines = [line.removeprefix("#").removeprefix(" ") for line in lines]
        cell: dict[str, Any] = {"cell_type": "markdown" if is_text else "code", "metadata": {}}
        if not is_text:
            cell |= {"execution_count": None, "outputs": []}
        yield cell | {"source": [f"{line}\n" for line in lines[:-1]] + lines[-1:]}


def notebook(script: str) -> str:
    """The notebook, without outputs."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {
        "cells": list(cells(script)),
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (HERE / "questions.ipynb").write_text(notebook((HERE / "questions.py").read_text()))
