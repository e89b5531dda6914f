"""Pages of literal histories as HTML, and the parts of an HTML text."""

from html.parser import HTMLParser

from kohort.report.building import Origin, described, drawn, page_of_all, page_of_group
from kohort.report.page import Page, render
from kohort.report.spans import milliseconds
from report.histories import at

ORIGIN = Origin(source="history", made=milliseconds(at(61)), version="0.2.0")


def of_group(history, findings=(), origin=ORIGIN) -> str:
    return render(page_of_group(history, findings, origin))


def of_all(histories, findings=None, origin=ORIGIN) -> str:
    """`findings`: by group id."""
    chosen = findings or {}
    page = page_of([(one, chosen.get(one.group, ())) for one in histories], origin)
    assert page is not None
    return render(page)


def page_of(groups, origin=ORIGIN) -> Page | None:
    """The page of all groups. `groups`: pairs of a history and its findings."""
    histories = {one.group: one for one, _ in groups}

    def draw(names):
        return {name: drawn(histories[name], origin) for name in names}

    return page_of_all([described(one, findings, origin) for one, findings in groups], draw, origin)


class Parts(HTMLParser):
    """The elements and the text of a page, as a browser parses them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data):
        if not self._open:
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())

    def named(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]
