"""Three nodes on one PostgreSQL under transactions, while everything fails.

    PYTHONPATH=tests python -m live.cluster.bank [--kills 100] [--seed N]

The tellers and what must hold are those of `live.chaos.bank`.
"""

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from live.chaos.bank import ACCOUNTS, SETTINGS, SHARED, TELLERS, Bank
from live.cluster.target import ClusterTarget

TOPICS = {
    "accounts": ACCOUNTS,
    "orders": TELLERS,
    "shared-orders": SHARED,
    "__transaction_state": 4,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m live.cluster.bank", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--kills", type=int, default=100, help="faults")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kohort-cluster-bank-"))
    print(f"seed {options.seed}, logs in {directory}", flush=True)

    def report(line: str) -> None:
        print(line, flush=True)

    target = ClusterTarget(
        directory, topics=TOPICS, seed=options.seed, settings=SETTINGS, report=report
    )
    try:
        bank = Bank(target, directory, kills=options.kills, seed=options.seed, report=report)
        outcome = bank.run()
        violations = [*outcome.violations, *target.check()]
    finally:
        target.stop()
    print(outcome)
    print(dict(target.faults))
    for violation in violations:
        print(f"VIOLATION {violation}")
    if violations:
        return 1
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
