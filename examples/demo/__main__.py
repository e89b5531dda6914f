"""`python examples/demo`: the show of `make run`."""

import argparse
import sys

from kohort_demo.main import add_arguments, run

parser = argparse.ArgumentParser(
    prog="python examples/demo", description="A group at work on a real data set."
)
add_arguments(parser)
parser.add_argument(
    "--install",
    nargs=argparse.REMAINDER,
    default=[],
    metavar="COMMAND",
    help="what installs Spark, run while the group is shown; the rest of the line",
)
options = parser.parse_args()
sys.exit(run(options, options.install))
