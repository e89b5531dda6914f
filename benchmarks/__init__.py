"""Kohort against its peers on the machine at hand: `python -m benchmarks` runs every measure,
`RESULTS.md` keeps them.

Each measure is a module and a command; `README.md` tells what is measured and how.
"""
