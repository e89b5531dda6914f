"""Pictures: PNG files of the charts, made without a browser."""

import struct

import pytest

from kohort.errors import ConfigError
from kohort.report import png as png_module
from kohort.report.building import page_of_group
from kohort.report.picture import MOST_ROWS, WIDTH, picture
from kohort.report.png import ZOOM, png
from report.histories import busy, history, minute
from report.rendered import ORIGIN, page_of


def test_a_picture_is_a_png_of_a_fixed_width():
    try:
        data = png(picture(page_of_group(busy(), (), ORIGIN)))
    except ConfigError as error:
        pytest.skip(str(error))
    assert data.startswith(b"\x89PNG\r\n")
    assert struct.unpack(">I", data[16:20])[0] == WIDTH * ZOOM


def test_a_machine_without_fonts_is_told_what_to_install(monkeypatch):
    monkeypatch.setattr(png_module, "_is_there", lambda _: False)
    png_module._has_fonts.cache_clear()
    try:
        with pytest.raises(ConfigError, match="fonts-dejavu-core"):
            png("<svg xmlns='http://www.w3.org/2000/svg'/>")
    finally:
        png_module._has_fonts.cache_clear()


def test_a_picture_of_many_groups_has_the_worst_ones():
    groups = [(history(f"g{n}", minutes=[minute(0)]), ()) for n in range(MOST_ROWS + 3)]
    svg = picture(page_of(groups))
    assert "3 more groups" in svg
    assert f">g{MOST_ROWS - 1}<" in svg
    assert f">g{MOST_ROWS}<" not in svg
