"""Compiles the kernels of `kohort.columnar` for a wheel, and for an editable copy."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileKernels(BuildHookInterface[Any]):
    """`pyproject.toml` names what this makes as artifacts of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile in a process of its own: this one goes on without numba's memory."""
        source = Path(self.root, "src")
        command = [sys.executable, "-m", "kohort.columnar.numba_compiler"]
        command.append(str(source / "kohort" / "columnar"))
        # pip's build environment drops what an earlier editable copy put on the path: this very
        # directory, also where PYTHONPATH names it. Python adds the current one later.
        subprocess.run(command, check=True, cwd=source)
