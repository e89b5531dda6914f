"""`python -m kohort.demo`."""

from kohort.demo.main import app

app(prog_name="python -m kohort.demo")
