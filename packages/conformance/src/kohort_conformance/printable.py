"""Text of a server, made safe to print: what a terminal acts upon is shown, not done."""


def printable(text: str) -> str:
    """`text` on one line; control and format characters become Python's escapes (`\\x1b`)."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text
    )
