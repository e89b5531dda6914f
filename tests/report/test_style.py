"""Colours of members."""

import re

from kohort.report.style import COLOURS, DARK, LIGHT, picture_style, style_sheet


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_names_in_bands_can_be_read_on_every_colour():
    assert all(contrast("#14181c", colour) >= 4.5 for colour in COLOURS)


def test_texts_can_be_read_in_both_schemes():
    for scheme in (LIGHT, DARK):
        for name in ("ink", "soft", "link", "error", "warning", "info", "none"):
            for ground in ("paper", "panel"):
                assert contrast(scheme[name], scheme[ground]) >= 4.5, (name, ground)


def test_every_colour_of_the_sheets_is_defined():
    names = set(re.findall(r"var\(--([a-z]+)\)", style_sheet()))
    assert names <= LIGHT.keys() == DARK.keys()
    assert "var(" not in picture_style()
