"""The OpenAPI document of the control API, made from its routes."""

import inspect
from functools import cache
from http import HTTPStatus
from types import NoneType
from typing import Any, Final

from kohort import __version__
from kohort.testing.control.routes import ROUTES, Parameter, Route
from kohort.testing.control.values import component_schemas, encode, schema_of

_DESCRIPTION: Final = (
    "Controls the Kafka brokers of `kohort serve --dev --control` in tests. Bytes are strings in "
    "base64, times are in seconds, and partitions are strings such as `orders-0`. The text of a "
    "verb names its errors: a KafkaError has the kind `kafka` and a code, an AssertionError the "
    "kind `not reached`, any other one the kind `refused`."
)
_ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "description": "What is wrong, and what to do.",
    "properties": {
        "error": {"type": "string"},
        "kind": {"enum": ["kafka", "refused", "not reached"]},
        "code": {"type": ["string", "null"], "description": "Kafka's name of the error."},
    },
    "required": ["error", "kind", "code"],
}


@cache
def document() -> dict[str, Any]:
    """The document as a value of JSON."""
    paths: dict[str, dict[str, Any]] = {}
    schemas: dict[str, Any] = {"Error": _ERROR}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
        for kind in (route.result, *(each.kind for each in route.parameters.values())):
            schemas |= component_schemas(kind)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Kohort control", "version": __version__, "description": _DESCRIPTION},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _operation(route: Route) -> dict[str, Any]:
    text = inspect.getdoc(route.function) or ""
    operation: dict[str, Any] = {
        "operationId": route.function.__name__,
        "summary": text.partition("\n\n")[0].replace("\n", " "),
        "description": text,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in route.in_path
        ],
        "responses": {
            str(HTTPStatus.OK.value): _response(route.result),
            "default": {
                "description": "An error.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    }
    if body := route.in_body:
        operation["requestBody"] = {
            "required": any(each.is_required for each in body.values()),
            "content": {"application/json": {"schema": _object(body)}},
        }
    return operation


def _response(kind: Any) -> dict[str, Any]:
    if kind is NoneType:
        return {"description": "Done; the body is null."}
    return {
        "description": "The result.",
        "content": {"application/json": {"schema": schema_of(kind)}},
    }


def _object(parameters: dict[str, Parameter]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: _property(each) for name, each in parameters.items()},
        "required": [name for name, each in parameters.items() if each.is_required],
        "additionalProperties": False,
    }


def _property(parameter: Parameter) -> dict[str, Any]:
    schema = schema_of(parameter.kind)
    if parameter.is_required or parameter.default is None:
        return schema
    return {**schema, "default": encode(parameter.default)}
