"""The first page of the HTTP port, a list of its paths for people."""

from collections.abc import Iterable
from html import escape
from http import HTTPStatus
from typing import Final

from kohort import __version__
from kohort.server.monitoring.http_port import HttpResponse

_ABOUT: Final = {
    "/health": "whether all partitions and groups are served, with reasons",
    "/ready": "whether this server has all that it is to lead",
    "/metrics": "metrics in the text format of Prometheus",
    "/nodes": "the nodes, with the partitions that they lead",
    "/topics": "the topics, with their partitions and configs; /topics/NAME: one topic",
    "/groups": "the groups, with their members and lag; /groups/NAME: one group; "
    "/groups/NAME/explain: why it is not stable",
}


def index_page(paths: Iterable[str]) -> HttpResponse:
    """An HTML page with a link to each of the paths that stand alone."""
    rows = "".join(
        f'<li><a href="{escape(path)}">{escape(path)}</a>: {escape(_ABOUT[path])}</li>\n'
        for path in paths
        if path in _ABOUT
    )
    body = (
        "<!DOCTYPE html>\n<html lang=en><meta charset=utf-8><title>Kohort</title>\n"
        f"<h1>Kohort {escape(__version__)}</h1>\n<ul>\n{rows}</ul>\n</html>\n"
    )
    return HttpResponse(HTTPStatus.OK, body.encode(), "text/html; charset=utf-8")
