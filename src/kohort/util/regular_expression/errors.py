"""Why an expression is refused."""


class RegularExpressionError(ValueError):
    """An expression is not valid, or too large; the text says why."""
