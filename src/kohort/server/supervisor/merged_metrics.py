"""The metrics of several workers as one text in Prometheus' format."""

from collections.abc import Iterable, Mapping
from typing import Final

UP: Final = "kohort_worker_up"
RESTARTS: Final = "kohort_worker_restarts_total"


def merged(
    expositions: Mapping[int, bytes], up: Mapping[int, int], restarts: Mapping[int, int]
) -> bytes:
    """The text of all nodes, whose texts these are, by node id; each sample has the label `node`.

    `up` says whether a node gave its metrics, `restarts` how often its process ended.
    """
    families: dict[bytes, tuple[list[bytes], list[bytes]]] = {}
    for node_id, text in expositions.items():
        label = b'node="%d"' % node_id
        samples: list[bytes] = []
        for line in text.splitlines():
            if line.startswith(b"#"):
                kind, name = line.split(b" ", 3)[1:3]
                heads, samples = families.setdefault(name, ([], []))
                if all(head.split(b" ", 2)[1] != kind for head in heads):
                    heads.append(line)
            else:
                samples.append(_labelled(line, label))
    lines = [line for heads, samples in families.values() for line in (*heads, *samples)]
    lines += _of_processes(UP, "gauge", "Whether a worker responds.", up)
    lines += _of_processes(
        RESTARTS,
        "counter",
        "Times that a worker was started again.",
        restarts,
    )
    return b"\n".join(lines) + b"\n"


def _labelled(sample: bytes, label: bytes) -> bytes:
    name, brace, labels_and_value = sample.partition(b"{")
    if brace:
        return b"%b{%b,%b" % (name, label, labels_and_value)
    name, _, value = sample.partition(b" ")
    return b"%b{%b} %b" % (name, label, value)


def _of_processes(
    name: str, kind: str, help_text: str, values: Mapping[int, int]
) -> Iterable[bytes]:
    yield f"# HELP {name} {help_text}".encode()
    yield f"# TYPE {name} {kind}".encode()
    for node_id, value in values.items():
        yield f'{name}{{node="{node_id}"}} {value}'.encode()
