"""The hardened server of docs/security.md: made, served and administered as the pages say.

Paths, the address and the name of the server are those of the test.
"""

import os
import re
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from docs.blocks import blocks, run_by
from docs.shell import Example, Shell, aligned, commands, examples, pattern
from peers.kafka import free_port
from server.certificates import Authority

PASSWORD = "a secret"
PROMPTS = ("Password:", "Again:")
PAGES = ("docs/security.md", "examples/cluster/README.md")
LISTEN = "--listen=SASL_SSL://0.0.0.0:9093"
"""As in the file: without it a server of the tests takes any port."""
SUPER_USER = '"super.users" = "User:admin"\n'


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell whose commands find the server, and the files that the page names."""
    authority = Authority(tmp_path)
    authority.issue("server.pem")
    port = free_port()
    made = Shell(
        tmp_path,
        {
            "/run/kohort/": f"{tmp_path}/",
            "/etc/kohort/ca.pem": str(authority.file),
            "/etc/kohort/": f"{tmp_path}/",
            "/var/lib/kohort": f"{tmp_path}/data",
            "kohort.example:9093": f"localhost:{port}",
            "0.0.0.0:9093": f"127.0.0.1:{port}",
        },
    )
    hardened, client = (
        next(each for each in blocks() if (each.page, each.language) == ("docs/security.md", kind))
        for kind in ("toml", "properties")
    )
    (tmp_path / "server.toml").write_text(made.replace(hardened.code) + SUPER_USER)
    admin = client.code.replace('"alice"', '"admin"').replace('"secret"', f'"{PASSWORD}"')
    (tmp_path / "admin.properties").write_text(made.replace(admin))
    return made


def typed(shell: Shell, command: str) -> None:
    """Run a command that asks a terminal for a password, twice."""
    master, slave = os.openpty()
    process = subprocess.Popen(
        ["bash", "-c", f'exec <"$TERMINAL" >"$TERMINAL" 2>&1; {shell.replace(command)}'],
        cwd=shell.directory,
        env={**shell.environment, "TERMINAL": os.ttyname(slave)},
        start_new_session=True,
    )
    shown = ""
    for prompt in PROMPTS:
        while prompt not in shown:
            shown += os.read(master, 1_000).decode()
        os.write(master, f"{PASSWORD}\n".encode())
    code = process.wait(120)
    shown += os.read(master, 1_000).decode()  # the end of the line that was typed, at least
    assert code == 0, (command, shown)
    os.close(master)
    os.close(slave)


@pytest.mark.parametrize("page", PAGES)
def test_the_server_is_used_as_the_page_says(shell: Shell, page: str) -> None:
    serve = "kohort serve --config server.toml"
    found = [
        example
        for block in run_by(__file__, page)
        for example in (
            examples(block.code)
            if block.language == "console"
            else (Example(command, "") for command in commands(block.code))
        )
        if example.command.strip() != serve
    ]
    assert len(found) >= 3
    found.sort(key=lambda example: "--data-dir" not in example.command)  # before the first start
    with ExitStack() as stack:
        for example in found:
            if "--data-dir" not in example.command and not shell.serves:
                stack.enter_context(shell.serve(f"{serve} {LISTEN}", ".")).line("listening")
            if "users add" in example.command:
                typed(shell, example.command)
            else:
                output = shell.checked(example.command)
                told = aligned(pattern(example.output))
                assert not example.output or re.fullmatch(told, aligned(output), re.DOTALL), (
                    example,
                    output,
                )
