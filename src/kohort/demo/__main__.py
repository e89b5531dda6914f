"""`python -m kohort.demo`."""

import argparse
import sys

from kohort.demo.main import add_arguments, run

parser = argparse.ArgumentParser(
    prog="python -m kohort.demo", description="A group at work on a real data set."
)
add_arguments(parser)
sys.exit(run(parser.parse_args()))
