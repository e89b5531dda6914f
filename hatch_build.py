"""Compiles the kernels of `kohort.columnar` for a wheel, and for an editable copy.

With KOHORT_BUILD_KERNELS=0 it leaves them out, and needs no numba: only the extra `arrow` has use
for them.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WITH_KERNELS = os.environ.get("KOHORT_BUILD_KERNELS") != "0"


class CompileKernels(BuildHookInterface[Any]):
    """`pyproject.toml` names what this makes as artifacts of the wheel."""

    def dependencies(self) -> list[str]:
        """What the build environment has besides."""
        return ["numba==0.68.*"] if WITH_KERNELS else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile in a process of its own: this one goes on without numba's memory."""
        if not WITH_KERNELS:
            return
        source = Path(self.root, "src")
        command = [sys.executable, "-m", "kohort.columnar.numba_compiler"]
        command.append(str(source / "kohort" / "columnar"))
        # pip's build environment drops what an earlier editable copy put on the path: this very
        # directory, also where PYTHONPATH names it. Python adds the current one later.
        subprocess.run(command, check=True, cwd=source)
