"""Apicurio Registry as the judge of schema registries: with Confluent's API, in memory.

Its application is resolved by Maven and stays in `.tools/apicurio-VERSION/` of the repository.
"""

import os
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from peers.kafka import TOOLS, building, free_port

VERSION = "2.6.13.Final"
START_SECONDS = 60.0


class ApicurioUnavailableError(RuntimeError):
    """The registry cannot be had or started here; the text says why."""


def missing_tools() -> str | None:
    """Why no Apicurio Registry can run here, or None: what tests print when they skip."""
    if shutil.which("java") is None:
        return "Apicurio Registry needs a Java runtime (17 or newer) on the PATH"
    if not _runner().exists() and shutil.which("mvn") is None:
        return "Apicurio Registry is resolved by Maven, which is not on the PATH"
    return None


def _runner() -> Path:
    return TOOLS / f"apicurio-{VERSION}" / f"apicurio-registry-app-{VERSION}-runner.jar"


def resolve() -> Path:
    """The application's JAR, fetched from Maven Central when missing."""
    runner = _runner()
    with building(runner.parent.name):
        if not runner.exists():
            _fetch(runner.parent)
    return runner


def _fetch(home: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        artifact = f"io.apicurio:apicurio-registry-app:{VERSION}:zip:all"
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
        for goal in (
            [f"{plugin}:get", f"-Dartifact={artifact}", "-Dtransitive=false"],
            [f"{plugin}:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={directory}"],
        ):
            done = subprocess.run(
                ["mvn", "-B", "-q", *goal],
                cwd=directory,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise ApicurioUnavailableError(
                    f"Maven could not resolve it:\n{done.stdout[-2000:]}"
                )
        (archive,) = Path(directory).glob("*.zip")
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(home)


@contextmanager
def apicurio() -> Iterator[str]:
    """The URL of Confluent's API of a registry that runs in the block."""
    runner, port = resolve(), free_port()
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    settings = {"QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(port)}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-jar", str(runner)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | settings,
        )
        try:
            deadline = time.monotonic() + START_SECONDS
            while not _responds(url):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise ApicurioUnavailableError(log.read()[-3000:].decode(errors="replace"))
                time.sleep(0.1)
            yield url
        finally:
            process.kill()
            process.wait(10)


def _responds(url: str) -> bool:
    try:
        with urlopen(f"{url}/subjects", timeout=2):
            return True
    except (URLError, OSError):
        return False
