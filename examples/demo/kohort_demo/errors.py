"""What can go wrong in the demo, told to the person who started it."""


class DemoError(Exception):
    """The show cannot go on; the text says why and what to do."""
