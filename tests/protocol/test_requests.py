"""The types of requests, which are written from kio's classes."""

from dataclasses import fields
from pathlib import Path

from kohort.protocol import requests
from kohort.protocol.apis import APIS
from kohort.protocol.message_classes import load_request_schema
from protocol.request_types import module


def test_the_module_is_what_its_generator_writes() -> None:
    # PYTHONPATH=tests python -m protocol.request_types > src/kohort/protocol/requests.py
    assert Path(requests.__file__).read_text() == "\n".join(module()) + "\n"


def test_every_request_has_the_fields_of_all_its_versions() -> None:
    for api in APIS.values():
        newest = load_request_schema(api.key, api.max_version).__name__
        written = {each.name for each in fields(getattr(requests, newest))}
        for version in range(api.min_version, api.max_version + 1):
            served = {each.name for each in fields(load_request_schema(api.key, version))}
            assert served <= written, (api.name, version)
