"""The command of `make simulate`."""

import re
import subprocess
import sys

SEED = 5


def test_the_command_runs_seeds_until_it_has_so_many_steps() -> None:
    command = [sys.executable, "-m", "kohort.testing.simulation", "--seed", str(SEED)]
    options = ["--steps", "1000", "--jobs", "2", "--seconds", "5", "--scenario", "consumer"]
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *runs, summary = done.stdout.splitlines()
    assert sorted(runs)[0].startswith(f"seed {SEED} consumer: ")
    assert all(run.endswith(": ok") for run in runs)
    found = re.fullmatch(r"(\d+) runs from seed 5: ([\d,]+) steps in [\d.]+ s, 0 failed", summary)
    assert found
    assert int(found[1]) == len(runs)
    assert int(found[2].replace(",", "")) >= 1000
