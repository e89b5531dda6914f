"""The source of Kohort that a measured server runs: of the working tree, or of a commit."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parents[1] / "src"


@contextmanager
def environment_of(commit: str = "") -> Iterator[Mapping[str, str]]:
    """Environment in which Python imports Kohort of the commit; "": of the working tree.

    The source of a commit is removed at the end. Raises subprocess.CalledProcessError if there is
    no such commit.
    """
    with tempfile.TemporaryDirectory(prefix="kohort-source-") as directory:
        source = _exported(commit, Path(directory)) if commit else SOURCE
        yield {**os.environ, "PYTHONPATH": str(source)}


def _exported(commit: str, directory: Path) -> Path:
    archive = directory / "source.tar"
    git = ("git", "-C", str(SOURCE.parent), "archive", f"--output={archive}", commit, SOURCE.name)
    subprocess.run(git, check=True)
    subprocess.run(("tar", "-xf", archive, "-C", directory), check=True)
    return directory / SOURCE.name
