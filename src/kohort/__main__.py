"""`python -m kohort` is the `kohort` command."""

from kohort.cli import main

main()
