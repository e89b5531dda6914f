"""Record all scenarios, or the named ones."""

import argparse
import json
import shutil
import tarfile
import tempfile
import time
from pathlib import Path

from history.recording.broker import RecordedBroker
from history.recording.scenarios import SCENARIOS
from history.recording.stage import Stage
from interop.built import GO, STREAMS_AND_CONNECT
from interop.programs import java_missing

LOGS = Path(__file__).parents[1] / "logs"


def record(name: str, directory: Path) -> None:
    """Play the scenario on a new broker, and write its files into the directory."""
    (directory / "clients").mkdir()
    broker = RecordedBroker()
    try:
        with Stage(broker, directory / "clients") as stage:
            try:
                SCENARIOS[name](stage)
            finally:
                _write(directory / "events.json", stage.events)
            with stage.quiet():
                stage.keep_whole()
            topics = stage.topic_ids
        broker.shut_down()
        broker.copy(directory / "compacted")
        (directory / "dump-whole.txt").write_text(broker.dump(directory / "whole"))
    finally:
        broker.stop()
    _write(directory / "snapshots.json", stage.snapshots)
    _write(directory / "topics.json", topics)
    shutil.rmtree(directory / "clients")


def _write(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=0, ensure_ascii=False))


def pack(name: str, directory: Path) -> Path:
    """The compressed recording."""
    archive = LOGS / f"{name}.tar.xz"
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        # The same segments of both logs beside each other compress best.
        for file in sorted(directory.rglob("*"), key=lambda each: (each.name, str(each))):
            if file.is_file():
                tar.add(file, str(file.relative_to(directory)))
    return archive


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m history.recording")
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], default=list(SCENARIOS))
    parser.add_argument("--keep", action="store_true", help="leave the unpacked files in place")
    options = parser.parse_args()
    for reason in (java_missing(), GO.missing(), STREAMS_AND_CONNECT.missing()):
        if reason:
            parser.exit(2, f"{reason}\n")
    for name in options.scenarios:
        began = time.monotonic()
        directory = Path(tempfile.mkdtemp(prefix=f"recording-{name}-"))
        try:
            print(f"{name}: in {directory}", flush=True)
            record(name, directory)
            archive = pack(name, directory)
        finally:
            if not options.keep:
                shutil.rmtree(directory)
        seconds = time.monotonic() - began
        print(f"{archive}: {archive.stat().st_size / 1024:.0f} KiB in {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
