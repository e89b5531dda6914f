"""Runs the tests of a directory in a pytest of its own, with the plugin of Kohort."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

PLUGIN = "kohort.testing.pytest_plugin"
IS_INSTALLED = any(point.value == PLUGIN for point in entry_points(group="pytest11"))
"""False in an environment that was installed before Kohort had the plugin."""
TIMEOUT_S = 300


def run_pytest(directory: Path, *options: str) -> tuple[int, str]:
    """Exit code and output. Settings of the pytest that runs this one are not passed on."""
    plugin = () if IS_INSTALLED else ("-p", PLUGIN)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, *options],
        cwd=directory,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    return done.returncode, done.stdout + done.stderr
