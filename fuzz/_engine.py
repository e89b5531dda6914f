"""Feeds inputs to a check: guided by coverage if `atheris` is installed, else mutated at random.

A harness is a module with `seeds()` and `check(data)`, which raises if its invariant does not hold.
It imports what it tests inside `with instrumented():`, and ends with `main(check, seeds())`.
"""

import argparse
import importlib.util
import logging
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

INPUTS = 330_000
SLOWEST_S = 1.0
"""Processor time for one input; more is a hang."""
GROWTH_MB = 256
"""Resident memory that a run may add, caches included."""
LARGEST = 4_096

Check = Callable[[bytes], None]


def instrumented() -> AbstractContextManager[object]:
    """Imports of `kohort` inside this block report their coverage, when run as a program."""
    if _is_guided():
        import atheris

        block: AbstractContextManager[object] = atheris.instrument_imports(include=["kohort"])
        return block
    return nullcontext()


def _is_guided() -> bool:
    return (
        Path(sys.argv[0]).parent.name == "fuzz" and importlib.util.find_spec("atheris") is not None
    )


def run(check: Check, seeds: Sequence[bytes], inputs: int, seed: int) -> None:
    """Check the seeds and mutations of them. Raises what `check` raises, noting the input."""
    rng = random.Random(seed)
    before = _resident_mb()
    for number in range(inputs):
        data = seeds[number] if number < len(seeds) else mutated(rng, seeds)
        began = time.process_time()
        try:
            check(data)
        except Exception as error:
            error.add_note(f"input {data.hex()}")
            raise
        assert time.process_time() - began < SLOWEST_S, f"hangs on {data.hex()}"
    assert _resident_mb() - before < GROWTH_MB, "grows"


def mutated(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A seed with some bytes flipped, cut, repeated, joined with another's, or set to extremes."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                del data[at : at + rng.randint(1, 16)]
            case 2:
                data[at:at] = data[at : at + rng.randint(1, 64)]
            case 3:
                other = rng.choice(seeds)
                data[at:] = other[rng.randrange(len(other) + 1) :]
            case 4:
                extreme = rng.choice((b"\xff", b"\x7f", b"\x80", b"\x00")) * rng.choice(
                    (1, 2, 4, 8)
                )
                data[at : at + len(extreme)] = extreme
            case _:
                data[at : at + 4] = rng.randbytes(rng.randint(0, 8))
    return bytes(data[:LARGEST])


def main(check: Check, seeds: Sequence[bytes], inputs: int = INPUTS) -> None:
    parser = argparse.ArgumentParser(description=f"Feed inputs to {Path(sys.argv[0]).name}.")
    parser.add_argument("inputs", nargs="?", type=int, default=inputs)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if _is_guided():
        _run_guided(check, seeds, options.inputs, options.seed)
    else:
        print(f"without coverage (atheris is not installed), seed {options.seed}", flush=True)
        run(check, seeds, options.inputs, options.seed)
        print(f"{options.inputs} inputs", flush=True)


def _run_guided(check: Check, seeds: Sequence[bytes], inputs: int, seed: int) -> None:
    import atheris

    with tempfile.TemporaryDirectory(prefix="kohort-fuzz-") as corpus:
        for number, data in enumerate(seeds):
            (Path(corpus) / str(number)).write_bytes(data)
        limits = (
            f"-max_len={LARGEST}",
            "-timeout=10",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
        )
        atheris.Setup(
            [sys.argv[0], f"-runs={inputs}", f"-seed={seed % 2**31}", *limits, corpus], check
        )
        atheris.Fuzz()


def _resident_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
