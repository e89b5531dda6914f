"""Doubles as Java writes them: known values of Double.toString, and what holds for any."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.server.config.java_double import java_double


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.0001, "1.0E-4"),
        (0.00025, "2.5E-4"),
        (5e-7, "5.0E-7"),
        (0.001, "0.001"),
        (0.0009999, "9.999E-4"),
        (0.0012345, "0.0012345"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1234567.25, "1234567.25"),
        (1e21, "1.0E21"),
        (2e23, "2.0E23"),
        (1 / 3, "0.3333333333333333"),
        (100 / 3, "33.333333333333336"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (5e-324, "4.9E-324"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (-1.5, "-1.5"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_known_doubles_have_the_text_of_java(value: float, text: str) -> None:
    assert java_double(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_is_the_number(value: float) -> None:
    text = java_double(value)
    assert float(text) == value
    assert math.copysign(1, float(text)) == math.copysign(1, value)
    mantissa, _, exponent = text.removeprefix("-").partition("E")
    whole, _, fraction = mantissa.partition(".")
    assert whole.isdecimal()
    assert fraction.isdecimal()
    assert fraction == "0" or not fraction.endswith("0")
    assert bool(exponent) == (value != 0 and not 1e-3 <= abs(value) < 1e7)
    if exponent:
        assert len(whole) == 1
        assert whole != "0"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_no_shorter_text_is_the_number(value: float) -> None:
    digits = java_double(value).partition("E")[0].translate({ord(each): None for each in "-."})
    count = len(digits.strip("0"))
    assert count <= 2 or float(f"{value:.{count - 2}e}") != value
