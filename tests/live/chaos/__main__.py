"""Kill the server at random moments under real clients, and check what they were promised.

    PYTHONPATH=tests python -m live.chaos [--kills 200] [--seed N] [--durability os|fsync]
                                          [--postgres | --workers N]

`make chaos` runs it with 200 kills, in about fifteen minutes. Producers (idempotent and plain) and
group members of confluent-kafka, aiokafka and Kohort's own client work while `kohort serve` is
ended by SIGKILL again and again, also while it starts; of a server with workers, one of them, the
parent, or all. One group has members of the consumer
protocol (KIP-848), and one changes its protocol with its members; both read a topic that grows.
Afterwards:

- every acknowledged record is there, in order, and once if its producer is idempotent,
- every acknowledged commit is in the group log, and no commit goes back,
- no partition has two owners in a generation, or at once in a consumer group, whose epochs never go
  back,
- every client goes on by itself.

The seed decides the moments of the kills and the lives of the clients; the scheduling of the
machine decides the rest. The exit code is 1 after a violation. The data is kept then.
"""

import argparse
import random
import shutil
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from live.chaos.lone import Chaos
from peers.postgres import Postgres


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m live.chaos", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--durability", choices=("os", "fsync"), default="os")
    parser.add_argument("--postgres", action="store_true", help="keep the logs in PostgreSQL")
    parser.add_argument("--workers", type=int, default=1, help="processes of the server")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kohort-chaos-"))
    print(f"seed {options.seed}, data in {directory}", flush=True)
    with Postgres.start(fsync=True) if options.postgres else nullcontext() as cluster:
        outcome = Chaos(
            directory,
            kills=options.kills,
            seed=options.seed,
            durability=options.durability,
            storage=cluster.url if cluster else "",
            workers=options.workers,
            report=lambda line: print(line, flush=True),
        ).run()
    print(outcome)
    for violation in outcome.violations:
        print(f"VIOLATION {violation}")
    if outcome.violations:
        return 1
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
