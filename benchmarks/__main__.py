"""Run every measurement: `python -m benchmarks [options of a measurement]`.

A run takes about 80 minutes on two cores.
"""

import sys

from benchmarks import (
    cluster,
    commits,
    consume,
    consumer_groups,
    decode,
    footprint,
    heartbeats,
    joining,
    latency,
    loading,
    rebalance,
    security,
    spark,
    throughput,
    transactions,
    workers,
)

MEASURES = (
    heartbeats,
    commits,
    workers,
    cluster,
    rebalance,
    consumer_groups,
    throughput,
    latency,
    transactions,
    security,
    footprint,
    loading,
    decode,
    consume,
    joining,
    spark,
)


def main() -> None:
    """Run the measurements; each writes its own section, so one that fails leaves the others."""
    for measure in MEASURES:
        print(f"== {measure.__name__}", flush=True)
        measure.main(sys.argv[1:])


if __name__ == "__main__":
    main()
