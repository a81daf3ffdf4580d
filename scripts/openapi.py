"""Write the OpenAPI document that `recollect-web` serves, from the contract as buf reads it.

`make docs` writes it, `make lint` checks that it is current. It has the calls with one answer, in
the JSON of protobuf; OpenAPI has no form for streams.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from recollect.v1 import rule_pb2

ROOT = Path(__file__).parent.parent
FILE = ROOT / "packages/page/src/recollect/web/openapi.json"

Comments = dict[tuple[int, ...], str]

_NUMBER, _INTEGER = {"type": "number"}, {"type": "integer", "format": "int32"}
_LONG = {"type": "string", "format": "int64", "pattern": "^-?[0-9]+$"}
_SCALARS: dict[int, dict[str, Any]] = {
    FieldDescriptorProto.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptorProto.TYPE_STRING: {"type": "string"},
    FieldDescriptorProto.TYPE_BYTES: {"type": "string", "format": "byte"},
    FieldDescriptorProto.TYPE_DOUBLE: _NUMBER,
    FieldDescriptorProto.TYPE_FLOAT: _NUMBER,
    FieldDescriptorProto.TYPE_INT32: _INTEGER,
    FieldDescriptorProto.TYPE_UINT32: {"type": "integer", "minimum": 0},
    FieldDescriptorProto.TYPE_INT64: _LONG,
    FieldDescriptorProto.TYPE_UINT64: _LONG,
}
_WELL_KNOWN: dict[str, dict[str, Any]] = {
    "Timestamp": {"type": "string", "format": "date-time"},
    "Duration": {"type": "string", "pattern": "^-?[0-9]+(\\.[0-9]{1,9})?s$"},
    "Struct": {"type": "object", "additionalProperties": True},
}
_ERROR = {
    "type": "object",
    "description": "An error. `debug` of the detail google.rpc.ErrorInfo has the reason, that of"
    " google.rpc.BadRequest the fields, that of google.rpc.RetryInfo when to try again.",
    "required": ["code", "message"],
    "properties": {
        "code": {"type": "string", "description": "The gRPC code, as `invalid_argument`."},
        "message": {"type": "string"},
        "details": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "type": {"type": "string"},
                    "value": {"type": "string", "description": "The message in base64."},
                    "debug": {"type": "object", "additionalProperties": True},
                },
            },
        },
    },
}


def document() -> dict[str, Any]:
    """Return the document."""
    buf = Path(sys.executable).parent / "buf"
    image = subprocess.run(
        [buf, "build", "--output", "-"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {"Error": _ERROR}
    streams: list[str] = []
    tags: list[dict[str, str]] = []
    for file in FileDescriptorSet.FromString(image).file:
        if file.package == "recollect.v1" and not file.name.endswith("/rule.proto"):
            comments = {
                tuple(it.path): _text(it.leading_comments)
                for it in file.source_code_info.location
                if it.leading_comments
            }
            for number, enum in enumerate(file.enum_type):
                schemas[enum.name] = _enum(enum, (5, number), comments)
            for number, message in enumerate(file.message_type):
                schemas |= _schemas(message, "", (4, number), comments)
            for number, service in enumerate(file.service):
                tags.append({"name": service.name, "description": comments.get((6, number), "")})
                calls, names = _calls(file, number, comments)
                paths |= calls
                streams += names
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Recollect",
            "version": "v1",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "The calls of recollect.v1 over HTTP, with JSON. A field that has its"
            " default (0, an empty text, the first value of an enum) is left out of answers."
            " Streams are called by the Connect protocol, or with `accept: text/event-stream` or"
            f" `application/x-ndjson`: {', '.join(streams)}.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Error": {
                    "description": "The call failed.",
                    "content": _content("Error"),
                }
            },
            "parameters": {
                "space": {
                    "name": "recollect-space",
                    "in": "header",
                    "description": "The space to call; by default the first one of the token.",
                    "schema": {"type": "string"},
                }
            },
        },
    }


def _calls(
    file: FileDescriptorProto, number: int, comments: Comments
) -> tuple[dict[str, Any], list[str]]:
    """Return the paths of a service, and the names of its streams."""
    service = file.service[number]
    paths, streams = {}, []
    for at, method in enumerate(service.method):
        name = f"{file.package}.{service.name}/{method.name}"
        if method.server_streaming:
            streams.append(name)
            continue
        text = comments.get((6, number, 2, at), "")
        paths[f"/{name}"] = {
            "post": {
                "operationId": f"{service.name}_{method.name}",
                "tags": [service.name],
                "summary": re.split(r"(?<=\.)\s", text)[0],
                "description": text,
                "parameters": [{"$ref": "#/components/parameters/space"}],
                "requestBody": {"required": True, "content": _content(_name(method.input_type))},
                "responses": {
                    "200": {
                        "description": "The answer.",
                        "content": _content(_name(method.output_type)),
                    },
                    "default": {"$ref": "#/components/responses/Error"},
                },
            }
        }
    return paths, streams


def _schemas(
    message: DescriptorProto, outer: str, path: tuple[int, ...], comments: Comments
) -> dict[str, Any]:
    """Return the schemas of a message and of those within it."""
    name = outer + message.name
    schemas: dict[str, Any] = {}
    for at, nested in enumerate(message.nested_type):
        if not nested.options.map_entry:
            schemas |= _schemas(nested, f"{name}.", (*path, 3, at), comments)
    for at, enum in enumerate(message.enum_type):
        schemas[f"{name}.{enum.name}"] = _enum(enum, (*path, 4, at), comments)
    maps = {it.name: it for it in message.nested_type if it.options.map_entry}
    choices: dict[str, list[str]] = {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    needs: dict[str, list[str]] = {}
    json_names = {it.name: it.json_name for it in message.field}
    for at, field in enumerate(message.field):
        entry = maps.get(field.type_name.rpartition(".")[2])
        if entry is not None:
            schema: dict[str, Any] = {
                "type": "object",
                "additionalProperties": _type(entry.field[1]),
            }
        else:
            schema = _type(field)
            rule = field.options.Extensions[rule_pb2.rule]
            schema |= _bounds(rule, schema)
            needs |= {field.json_name: [json_names[rule.only_with]]} if rule.only_with else {}
            if field.label == FieldDescriptorProto.LABEL_REPEATED:
                bounds = {"minItems": rule.min_items, "maxItems": rule.max_items}
                schema = {"type": "array", "items": schema} | _set(bounds)
                schema |= {"uniqueItems": True} if rule.unique else {}
            elif rule.required and name.endswith("Request"):
                required.append(field.json_name)
        if field.HasField("oneof_index") and not field.proto3_optional:
            choice = message.oneof_decl[field.oneof_index].name
            choices.setdefault(choice, []).append(field.json_name)
        if (*path, 2, at) in comments:
            schema = schema | {"description": comments[*path, 2, at]}
        properties[field.json_name] = schema
    texts = [comments.get(path, "")]
    texts += [f"At most one of {', '.join(names)} is set." for names in choices.values()]
    schemas[name] = {
        "type": "object",
        "description": "\n\n".join(filter(None, texts)),
        "properties": properties,
    } | _set({"required": required, "dependentRequired": needs})
    return schemas


def _bounds(rule: rule_pb2.Rule, schema: dict[str, Any]) -> dict[str, Any]:
    """Return what the rule of a field says of one of its values. An empty text is an unset one, and
    whole numbers of 64 bits are texts.
    """
    if schema.get("type") == "string" and "format" not in schema:
        form = rule_pb2.Form.DESCRIPTOR.values_by_number[rule.form].GetOptions()
        pattern = form.Extensions[rule_pb2.pattern]
        bounds: dict[str, Any] = {
            "minLength": rule.min_chars,
            "maxLength": rule.max_chars or pattern.max_chars or rule.max_bytes,
        }
        if pattern.regex and not pattern.any_script:
            bounds["pattern"] = f"^({pattern.regex}){'' if rule.required else '?'}$"
        return _set(bounds)
    if schema.get("type") in ("integer", "number"):
        bounds = {it: getattr(rule, it) for it in ("minimum", "maximum") if rule.HasField(it)}
        return {name: int(it) if it == int(it) else it for name, it in bounds.items()}
    return {}


def _set(values: dict[str, Any]) -> dict[str, Any]:
    return {name: it for name, it in values.items() if it}


def _type(field: FieldDescriptorProto) -> dict[str, Any]:
    """Return the schema of one value of a field."""
    if field.type_name.startswith(".google.protobuf."):
        return dict(_WELL_KNOWN[_name(field.type_name)])
    if field.type_name:
        return {"$ref": f"#/components/schemas/{_name(field.type_name)}"}
    return dict(_SCALARS[field.type])


def _enum(enum: EnumDescriptorProto, path: tuple[int, ...], comments: Comments) -> dict[str, Any]:
    """Return the schema of an enum, with what its values mean."""
    names = [it.name for it in enum.value]
    lines = [
        f"- `{name}`: {text}"
        for at, name in enumerate(names)
        if (text := comments.get((*path, 2, at)))
    ]
    text = "\n\n".join(filter(None, [comments.get(path, ""), "\n".join(lines)]))
    return {"type": "string", "enum": names, "description": text}


def _name(type_name: str) -> str:
    return type_name.removeprefix(".google.protobuf.").removeprefix(".recollect.v1.")


def _content(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _text(comment: str) -> str:
    """Return a comment with one line for each paragraph."""
    parts = (" ".join(it.split()) for it in re.split(r"\n\s*\n", comment))
    return "\n\n".join(filter(None, parts))


def main(*, check: bool) -> int:
    """Write the document, or say that it is not current."""
    text = json.dumps(document(), ensure_ascii=False, indent=1) + "\n"
    if not check:
        FILE.write_text(text)
    elif not FILE.exists() or FILE.read_text() != text:
        print(f"{FILE.name} is not current: run `make docs` and commit.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv))
