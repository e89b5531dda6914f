"""Metrics of several workers as one text."""

from prometheus_client.parser import text_string_to_metric_families

from kohort.server.supervisor.merged_metrics import RESTARTS, UP, merged

NODE = """\
# HELP a_total What.
# TYPE a_total counter
a_total{{api="x{{",error="y"}} {0}.0
a_total{{api="z"}} 2.0
# HELP b A gauge.
# TYPE b gauge
b {0}.0
"""


def test_each_sample_has_its_node() -> None:
    texts = {node: NODE.format(node).encode() for node in (4, 5)}
    text = merged(texts, up={4: 1, 5: 1, 6: 0}, restarts={4: 0, 5: 0, 6: 3}).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = families["a"].samples
    assert [(each.labels["node"], each.value) for each in samples] == [
        ("4", 4),
        ("4", 2),
        ("5", 5),
        ("5", 2),
    ]
    assert samples[0].labels == {"node": "4", "api": "x{", "error": "y"}
    assert [(each.labels, each.value) for each in families["b"].samples] == [
        ({"node": "4"}, 4),
        ({"node": "5"}, 5),
    ]
    assert families["a"].documentation == "What."
    assert text.count("# TYPE a_total counter") == 1
    assert f'{UP}{{node="6"}} 0' in text
    assert f'{RESTARTS}{{node="6"}} 3' in text
