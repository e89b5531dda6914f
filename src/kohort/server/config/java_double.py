"""Text of doubles as Java writes them, which Kafka's configs of type DOUBLE are shown in.

Source: Double.toString of Java 19 and later; earlier versions write a few numbers with one digit
more than they need.
"""

import math
from decimal import Decimal
from typing import Final

_PLAIN: Final = range(-3, 7)
"""Powers of ten of the first digit for which a number is written without an exponent."""


def java_double(value: float) -> str:
    """`value` as Double.toString: 0.5, 1.0E-4, 1.2345678E7, Infinity, NaN."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    if not value:
        return f"{sign}0.0"
    digits, power = _digits(abs(value))
    if power not in _PLAIN:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    integer_part = digits[: power + 1].ljust(power + 1, "0")
    return f"{sign}{integer_part}.{digits[power + 1 :] or '0'}"


def _digits(value: float) -> tuple[str, int]:
    """Significant digits, and the power of ten of the first one.

    They are the fewest that stand for no other double, but for one that is enough: of two digits
    those nearest to the number are taken, so the least double is 4.9E-324 and not 5.0E-324.
    """
    two = f"{value:.1e}"
    shortest = two if float(two) == value else repr(value)
    _, digits, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    return "".join(map(str, digits)).rstrip("0"), exponent + len(digits) - 1
