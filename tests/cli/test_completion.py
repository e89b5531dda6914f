"""Completion scripts: that shells accept them, and what bash completes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from cli.running import runner
from kohort.cli.app import COMMANDS

pytest.importorskip("shtab")

CHECKS = {
    "bash": ("bash", "-n"),
    "zsh": ("zsh", "-n"),
    "fish": ("fish", "--no-execute"),
}
"""The command that reads a script and runs nothing, by shell."""

COMPLETE = """
source "$1"
function=$(complete -p kohort | sed 's/.* -F \\([^ ]*\\) .*/\\1/')
shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
"$function"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> Path:
    """The script for the shell that the test names."""
    shell = getattr(request, "param", "bash")
    done = runner(capsys)("completion", shell)
    assert done.exit_code == 0
    path = tmp_path / f"kohort.{shell}"
    path.write_text(done.output)
    return path


@pytest.mark.parametrize("script", CHECKS, indirect=True)
def test_the_shell_accepts_it(script: Path) -> None:
    check = CHECKS[script.suffix[1:]]
    if shutil.which(check[0]) is None:
        pytest.skip(f"{check[0]} is not installed")
    subprocess.run([*check, str(script)], check=True, timeout=60)


def completed(script: Path, *words: str) -> set[str]:
    """What bash offers for the last word."""
    command = ["bash", "-c", COMPLETE, "bash", str(script), "kohort", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_bash_completes_commands_options_and_values(script: Path) -> None:
    assert completed(script, "") >= set(COMMANDS)
    assert completed(script, "gro") == {"groups"}
    assert completed(script, "groups", "des") == {"describe"}
    assert completed(script, "groups", "describe", "--mem") == {"--members"}
    assert completed(script, "groups", "describe", "--output", "") == {"table", "json", "csv"}
    assert completed(script, "serve", "--durab") == {"--durability"}
    assert completed(script, "completion", "") >= {"bash", "zsh", "fish"}


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    done = runner(capsys)("completion", "cmd")
    assert (done.exit_code, done.output) == (2, "")
    assert "cmd: is not one of bash | zsh | fish" in done.stderr
