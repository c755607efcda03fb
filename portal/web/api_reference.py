"""Arranges the OpenAPI document for the API reference page."""

import re
from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator


@cache
def operation_groups() -> list[dict[str, Any]]:
    """Return operations by the first word of their path: [{"tag", "operations": [{"id", "method",
    "path", "summary", "parameters", "fields", "answers"}]}]. Cached: the document does not change
    while the process lives.
    """
    schema = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            tag = path.removeprefix("/api/v1/").partition("/")[0]
            groups.setdefault(tag, []).append(_presented(schema, path, method, operation))
    return [{"tag": tag, "operations": operations} for tag, operations in sorted(groups.items())]


def first_sentence(text: str) -> str:
    """Return the first sentence of a description, on one line."""
    return re.split(r"(?<=[.!?])\s", " ".join(text.split()), maxsplit=1)[0]


def _presented(schema: dict[str, Any], path: str, method: str, operation: dict[str, Any]) -> dict[str, Any]:
    text = operation.get("description", "")
    return {
        "id": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "summary": operation.get("summary") or first_sentence(text),
        "parameters": [
            {
                "name": parameter["name"],
                "words": _words(parameter.get("schema", {}), parameter.get("description")),
            }
            for parameter in operation.get("parameters", [])
        ],
        "fields": _body_fields(schema, operation),
        "answers": ", ".join(sorted(operation.get("responses", {}))),
    }


def _body_fields(schema: dict[str, Any], operation: dict[str, Any]) -> list[dict[str, str]]:
    content = (
        operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    )
    name = content.get("$ref", "").rpartition("/")[2]
    component = schema.get("components", {}).get("schemas", {}).get(name, {})
    required = set(component.get("required", ()))
    return [
        {"name": field, "words": _words(shape, shape.get("description"), is_required=field in required)}
        for field, shape in component.get("properties", {}).items()
    ]


def _words(shape: dict[str, Any], description: str | None, *, is_required: bool = False) -> str:
    kind = shape.get("format") or shape.get("type") or "object"
    return ". ".join(part for part in (kind + (", required" if is_required else ""), description) if part)
