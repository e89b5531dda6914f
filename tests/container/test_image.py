"""The image of one server, built from the Containerfile and run without a network of its own.

Needs root, buildah, podman and runc, and in KOHORT_CONTAINER_BASE the name of an image with python3
or the directory of a root file system: packaging/README.md.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("buildah", "podman", "runc")
BASE = os.environ.get("KOHORT_CONTAINER_BASE", "")
SECONDS = 600
"""For a command, on a busy machine too."""
HARDENED = ("--read-only", "--tmpfs=/tmp", "--cap-drop=all", "--security-opt=no-new-privileges")
missing = [tool for tool in TOOLS if shutil.which(tool) is None]

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}"),
    pytest.mark.skipif(os.getuid() != 0, reason="builds and runs containers as root"),
    pytest.mark.skipif(not BASE, reason="KOHORT_CONTAINER_BASE names no image with python3"),
]


class Containers:
    """podman and buildah with images and containers of their own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._storage = ("--root", place / "root", "--runroot", place / "run")
        config = place / "containers.conf"
        config.write_text('[containers]\ndefault_ulimits = []\n[engine]\nruntime = "runc"\n')
        self._environment = {**os.environ, "CONTAINERS_CONF": str(config)}

    def run(self, program: str, *arguments: str | Path, text: str = "", check: bool = True) -> str:
        """The standard output. Raises CalledProcessError."""
        command = [program, *self._storage, "--storage-driver", "vfs", *arguments]
        done = subprocess.run(
            list(map(str, command)), env=self._environment, input=text, text=True,
            capture_output=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        if check and done.returncode:
            raise AssertionError(f"{arguments}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def podman(self, *arguments: str | Path, text: str = "", check: bool = True) -> str:
        return self.run("podman", *arguments, text=text, check=check)


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    """Containers with the image `kohort`."""
    place = tmp_path_factory.mktemp("containers")
    containers = Containers(place)
    try:
        build(containers, base_image(containers))
        yield containers
    finally:
        containers.podman("rm", "--all", "--force", check=False)
        shutil.rmtree(place, ignore_errors=True)


def base_image(containers: Containers) -> str:
    if not Path(BASE).is_dir():
        return BASE
    archive = containers.place / "base.tar"
    subprocess.run(["tar", "-C", BASE, "-cf", archive, "."], check=True, timeout=SECONDS)
    containers.podman("import", "--quiet", archive, "localhost/base:1")
    archive.unlink()
    return "localhost/base:1"


def build(containers: Containers, base: str) -> None:
    """Build the image from wheels alone, as a build without a network does."""
    context = containers.place / "context"
    wheels = context / "wheels"
    wheels.mkdir(parents=True)
    shutil.copytree(ROOT / "packaging", context / "packaging")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=SECONDS)
    (wheel,) = wheels.iterdir()
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    version = containers.podman("run", "--rm", "--network=none", base, "python3", "-c", code)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:"]
    pip += ["--python-version", version, "--dest", str(wheels)]
    requirement = f"kohort[postgres,oauth,re2] @ {wheel.as_uri()}"
    subprocess.run([*pip, requirement], check=True, capture_output=True, timeout=SECONDS)
    containers.run(
        "buildah", "bud", "--isolation=chroot", "--format=docker", f"--build-arg=BASE={base}",
        "--build-arg=PIP_OPTIONS=--no-index", "--tag=localhost/kohort",
        f"--file={context / 'packaging' / 'Containerfile'}", context,
    )  # fmt: skip


def wait_until_healthy(containers: Containers, name: str) -> None:
    """Run the image's own health check until it passes; nothing runs it without systemd."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if containers.podman("healthcheck", "run", name, check=False) == "":
            state = containers.podman("inspect", "--format={{.State.Health.Status}}", name)
            if state == "healthy":
                return
    raise AssertionError(containers.podman("logs", name))


def test_a_hardened_container_serves_both_listeners_and_keeps_its_records(
    containers: Containers,
) -> None:
    podman = containers.podman
    podman(
        "run", "--detach", "--name=k", "--hostname=kafka", "--add-host=kafka:127.0.0.1",
        "--network=none", *HARDENED, "--volume=records:/var/lib/kohort", "localhost/kohort",
    )  # fmt: skip
    wait_until_healthy(containers, "k")
    produce = ("exec", "--interactive", "k", "kohort", "produce", "greetings")
    consume = ("exec", "k", "kohort", "consume", "greetings", "-e")
    podman(*produce, "-b", "localhost:9092", text="hello\n")
    assert podman(*consume, "-b", "kafka:29092") == "hello"
    begun = time.monotonic()
    podman("stop", "--time=60", "k")
    print(f"stopped in {time.monotonic() - begun:.1f} s")
    assert podman("inspect", "--format={{.State.ExitCode}}", "k") == "0"
    podman("start", "k")
    wait_until_healthy(containers, "k")
    assert podman(*consume, "-b", "localhost:9092") == "hello"


def test_a_command_is_one_of_kohort_or_a_program_by_its_path(containers: Containers) -> None:
    run = ("run", "--rm", "--network=none", "localhost/kohort")
    assert containers.podman(*run, "version").startswith("kohort ")
    assert containers.podman(*run, "sh", "-c", "id -u") == "10001"
    assert containers.podman(*run, "/bin/echo", "hello") == "hello"
