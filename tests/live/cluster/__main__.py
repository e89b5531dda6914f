"""Three nodes on one PostgreSQL under real clients, while everything fails.

    PYTHONPATH=tests python -m live.cluster [--kills 200 | --seconds S | --short] [--seed N]
    PYTHONPATH=tests python -m live.cluster --take-overs [--without-lock] [--seed N]

The clients and what must hold are those of `live.chaos`, with members and idempotent producers of
Apache Kafka's client and of franz-go besides. Many clients live for the whole run. PostgreSQL has a
synchronous standby. At random:

- a node is killed, or several are, or one while it starts, or it hangs for longer than its lease,
- backends are terminated, PostgreSQL is restarted, crashes, or is replaced by its standby,
- an operator moves partitions, drains a node, or restarts one in order.

After each ten of them every client has to go on by itself within a minute. At the end the batches
of each partition must follow each other, in the order of leader epochs. The seed decides the
faults; the scheduling of the machine decides the rest. The exit code is 1 after a violation; the
logs are kept then. `live.cluster.bank` has transactions.

`--take-overs`: living nodes are replaced while appends are in flight. `--without-lock` is the
negative control: fences take no lock, so violations must be found, and the exit code is 1.
"""

import argparse
import math
import random
import shutil
import sys
import tempfile
from pathlib import Path

from live.cluster.run import ClusterRun
from live.cluster.take_overs import TakeOvers


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m live.cluster", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--short", action="store_true", help="each fault once")
    parser.add_argument("--take-overs", action="store_true")
    parser.add_argument("--without-lock", action="store_true", help="of a fence, with --take-overs")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kohort-cluster-"))
    print(f"seed {options.seed}, logs in {directory}", flush=True)
    run = _run(options, directory)
    outcome = run.run()
    print(outcome)
    print(dict(run.faults))
    for client, seconds in sorted(outcome.ledger.outages.items()):
        replaced = outcome.ledger.replaced[client]
        print(f"{client}: at most {seconds:.1f} s without success, replaced {replaced} times")
    for violation in outcome.violations:
        print(f"VIOLATION {violation}")
    if outcome.violations:
        return 1
    shutil.rmtree(directory)
    return 0


def _run(options: argparse.Namespace, directory: Path) -> ClusterRun:
    def report(line: str) -> None:
        print(line, flush=True)

    if options.take_overs:
        locks = not options.without_lock
        return TakeOvers(directory, seed=options.seed, locks=locks, report=report)
    return ClusterRun(
        directory,
        kills=0 if options.short else options.kills,
        seconds=options.seconds,
        seed=options.seed,
        report=report,
    )


if __name__ == "__main__":
    sys.exit(main())
