"""Rounds that measure every server in turn, so that disturbances affect all of them.

The other servers are stopped meanwhile (SIGSTOP), because an idle JVM takes a twentieth of a core.
The order moves by one from round to round, so that no server always follows the same one.
"""

import argparse
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from benchmarks.load import LoadError
from benchmarks.servers import SERVERS, Server, start_all

ENOUGH_ROUNDS = 5
"""Medians of fewer are not written to the results."""
NOT_MEASURED = math.nan
"""A figure that does not apply to a server, or that a round did not get."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run, from the command line."""

    rounds: int
    seconds: float
    servers: tuple[str, ...]
    write: bool


def option_parser(documentation: str | None) -> argparse.ArgumentParser:
    """Parser of the options of a benchmark, with `--dry`. `documentation` is its docstring."""
    parser = argparse.ArgumentParser(
        description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dry", action="store_true", help="print, but do not write RESULTS.md")
    return parser


def plan(
    documentation: str | None, *, servers: Sequence[str], seconds: float, argv: Sequence[str] | None
) -> Plan:
    """Read the options of a measurement.

    Results are kept only of whole runs, with enough rounds and all servers.
    """
    parser = option_parser(documentation)
    parser.add_argument(
        "--rounds",
        type=int,
        default=ENOUGH_ROUNDS,
        help=("of which medians are taken (%(default)s)"),
    )
    parser.add_argument(
        "--seconds", type=float, default=seconds, help="of each measurement (%(default)s)"
    )
    parser.add_argument(
        "--servers", default=",".join(servers), help="which to measure (%(default)s)"
    )
    options = parser.parse_args(argv)
    chosen = tuple(options.servers.split(","))
    if unknown := set(chosen) - set(SERVERS):
        parser.error(
            f"no such server: {', '.join(sorted(unknown))}; there are {', '.join(SERVERS)}"
        )
    whole = options.rounds >= ENOUGH_ROUNDS and set(chosen) >= set(servers)
    return Plan(
        rounds=options.rounds,
        seconds=options.seconds,
        servers=chosen,
        write=whole and not options.dry,
    )


class Samples:
    """Figures by server and round; a failed round is None."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names
        """The servers measured, with the names that people know them by."""
        self._rounds: defaultdict[str, list[Mapping[str, float] | None]] = defaultdict(list)

    def add(self, key: str, sample: Any) -> None:
        """Add a dataclass of figures, or None for a failed round."""
        self._rounds[key].append(None if sample is None else asdict(sample))

    def median(self, key: str, figure: str) -> float | None:
        """Median over the rounds that did not fail; None if all did, or without a measurement."""
        values = [sample[figure] for sample in self._rounds.get(key, ()) if sample is not None]
        return _median(values)

    def ratio(self, key: str, to: str, figure: str) -> float | None:
        """Median of `key` / `to` of the same round."""
        pairs = zip(self._rounds.get(key, ()), self._rounds.get(to, ()), strict=False)
        ratios = [
            a[figure] / b[figure] for a, b in pairs if a is not None and b is not None and b[figure]
        ]
        return _median(ratios)


def _median(values: Sequence[float]) -> float | None:
    measured = [value for value in values if not math.isnan(value)]
    return statistics.median(measured) if measured else None


def interleaved(
    plan: Plan,
    measure: Callable[[Server], Any],
    *,
    warm_up: Callable[[str, Server], None] = lambda _key, _server: None,
) -> Samples:
    """Start the servers, warm each up, and measure each in every round."""
    with ExitStack() as stack:
        servers = start_all(plan.servers, stack)
        samples = Samples({key: server.name for key, server in servers.items()})
        for key, server in servers.items():
            _alone(server, f"{key}: warm-up", partial(warm_up, key))
        for number in range(plan.rounds):
            keys = list(servers)
            for key in keys[number % len(keys) :] + keys[: number % len(keys)]:
                samples.add(key, _alone(servers[key], f"{key}: round {number + 1}", measure))
    return samples


def _alone(server: Server, what: str, measure: Callable[[Server], Any]) -> Any:
    server.resume()
    try:
        sample = measure(server)
    except LoadError as error:
        print(f"  {what} failed: {error}", flush=True)
        return None
    finally:
        server.pause()
    if sample is not None:
        print(f"  {what}: {described(sample)}", flush=True)
    return sample


def described(sample: Any) -> str:
    """The figures of a sample on one line."""
    return "  ".join(f"{name} {significant(value)}" for name, value in asdict(sample).items())


def significant(value: float) -> str:
    """Three digits, or all digits before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
