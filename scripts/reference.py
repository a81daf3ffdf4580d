"""Generate the reference pages from the code: settings, errors, contract, command lines, Python
API, map.

The pages in `docs/` call these functions in cog blocks. `make docs` writes them, `make lint` checks
that they are current.
"""

import ast
import enum
import inspect
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import click
import yaml
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    EnumValueDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorSet,
)
from recollect.v1 import rule_pb2

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.sizing import Measured, tables

ROOT = Path(__file__).parent.parent

_SETTINGS_SECTIONS = {
    "tls_cert": "Server and data",
    "max_working_turns": "Limits",
    "threads": "Concurrency",
    "update_retention": "Live updates",
    "embedder": "Search by meaning",
    "idle_timeout": "Notes",
    "compaction": "Compaction",
    "context_hot_turns": "Contexts",
    "models": "Channels and third parties",
    "reflection": "Operation",
}
"""The setting that each section of the settings page begins with."""


def settings() -> None:
    """Print the tables of settings."""
    from recollect_server.run.settings import Settings
    from recollect_server.run.settings.values import duration_text

    for name, described in Settings.model_fields.items():
        if name in _SETTINGS_SECTIONS:
            print(f"\n## {_SETTINGS_SECTIONS[name]}\n")
            print("| environment | flag | default | meaning |\n| --- | --- | --- | --- |")
        value = described.default
        shown = duration_text(value) if isinstance(value, timedelta) else str(value)
        shown = shown.lower() if value is None or isinstance(value, bool) else shown
        flag = name.replace("_", "-")
        text = _cell(described.description or "")
        print(f"| `RECOLLECT_{name.upper()}` | `--{flag}` | `{shown}` | {text} |")
    print()


def errors() -> None:
    """Print the table of error reasons, with the exception that the Python client raises."""
    from recollect._shared.failures import BY_REASON

    raised = {str(reason): kind.__name__ for reason, kind in BY_REASON.items()}
    reasons = next(it for it in _contract().enums if it.name == "ErrorReason")
    print("\n| reason | gRPC code | Python exception | meaning |\n| --- | --- | --- | --- |")
    for name, comment in reasons.values:
        code, _, text = comment.partition(". ")
        if raised.get(name):
            print(f"| `{name}` | {code} | `{raised[name]}` | {_cell(text)} |")
    print()


def scopes() -> None:
    """Print the table of scopes, with the kinds of tokens that have each, and the calls that need
    it.
    """
    from recollect_server.access.principal import KINDS, Scope
    from recollect_server.contract.gate import scopes_of
    from recollect_server.contract.server import SERVICES

    meanings = dict(next(it for it in _contract().enums if it.name == "Scope").values)
    print(f"\n| scope | allows | {' | '.join(KINDS)} | calls |")
    print(f"| --- | --- |{' --- |' * len(KINDS)} --- |")
    for scope in Scope:
        if scope is not Scope.ANY:
            meaning = meanings[f"SCOPE_{scope.name}"]
            kinds = " | ".join("✓" if scope in KINDS[kind] else "" for kind in KINDS)
            calls = [
                f"`{method.name}`"
                for service in SERVICES
                for method in service.methods
                if scope in scopes_of(method)
            ]
            print(f"| `{scope}` | {_cell(meaning)} | {kinds} | {', '.join(calls)} |")
    print()


def metrics() -> None:
    """Print the table of metrics."""
    from recollect_server.run.metrics import METRICS

    print("\n| metric | kind | labels | meaning |\n| --- | --- | --- | --- |")
    for it in METRICS.values():
        labels = "<br>".join(_label(name, values) for name, values in (it.labels or {}).items())
        only = f" Only {it.only}." if it.only else ""
        print(f"| `{it.name}` | {it.kind} | {labels} | {_cell(it.help)}{only} |")
    print()


def alerts() -> None:
    """Print the table of alerts, with what to do about each."""
    (group,) = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())["groups"]
    print("\n| alert | severity | what it says | what to do |\n| --- | --- | --- | --- |")
    for rule in group["rules"]:
        notes = {name: _cell(" ".join(it.split())) for name, it in rule["annotations"].items()}
        severity = rule["labels"]["severity"]
        print(f"| `{rule['alert']}` | {severity} | {notes['summary']} | {notes['action']} |")
    print()


def benchmarks() -> None:
    """Print the overview table of `bench/README.md`, with its links as seen from `docs/`."""
    page = (ROOT / "bench/README.md").read_text()
    overview = page.partition("\n## Overview\n")[2].partition("\n## ")[0].strip()
    overview = re.sub(
        r"(?<=]\()[^)#]*",
        lambda it: os.path.relpath(f"bench/{it[0] or 'README.md'}", "docs"),
        overview,
    )
    print(f"\n{overview}\n")


def sizing(title: str) -> None:
    """Print the table of `bench.sizing` that has a title."""
    print("\n" + "\n".join(tables(Measured())[title]) + "\n")


def _label(name: str, values: tuple[str, ...]) -> str:
    """Return a label with its values, if they are few."""
    return f"`{name}`" + (f": {', '.join(values)}" if 0 < len(values) <= 10 else "")


def contract() -> None:
    """Print every service, call, message and enum of the contract with its comment."""
    described = _contract()
    called = {
        name
        for service in described.services
        for call in service.calls
        for name in (call.request, call.answer)
    }
    messages = {message.name: message for message in described.messages}
    for service in described.services:
        print(f"\n## {service.name}\n\n{service.comment}")
        for call in service.calls:
            stream = " (stream)" if call.is_stream else ""
            print(f"\n### {service.name}/{call.name}\n\n{call.comment}")
            _print_message(messages[call.request], f"`{call.request}`")
            _print_message(messages[call.answer], f"`{call.answer}`{stream}")
    print("\n## Messages")
    for name, message in sorted(messages.items()):
        if name not in called:
            _print_message(message, f"### {name}\n")
    print("\n## Enums")
    for it in sorted(described.enums, key=lambda it: it.name):
        print(f"\n### {it.name}\n\n{it.comment}\n\n| value | meaning |\n| --- | --- |")
        for name, comment in it.values:
            print(f"| `{name}` | {_cell(comment)} |")
    print()


def server_commands() -> None:
    """Print the help of every command of `recollect-server`."""
    from recollect_server.run.commands import commands
    from recollect_server.run.settings import FORMER, Settings

    _print_help(commands, "recollect-server", {*Settings.model_fields}, FORMER)


def client_commands() -> None:
    """Print the help of every command of `recollect`."""
    from recollect.cli.group import commands

    _print_help(commands, "recollect", set())


def python_api() -> None:
    """Print the methods of the client's groups, its types and its exceptions."""
    import recollect

    client = recollect.Client("127.0.0.1:1")
    for group in ("conversations", "recall", "channels", "external"):
        kind = type(getattr(client, group))
        print(f"\n## client.{group}\n\n{_summary(kind)}\n")
        for name, member in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                print(f"- `{name}({_parameters(member)})`: {_summary(member)}")
    client.close()
    exported = [getattr(recollect, name) for name in sorted(recollect.__all__)]
    print("\n## Types\n\n| type | fields |\n| --- | --- |")
    for kind in exported:
        if inspect.isclass(kind) and is_dataclass(kind):
            named = ", ".join(f"`{field.name}`" for field in fields(kind))
            print(
                f"| `{kind.__name__}` | {_cell(_summary(kind))} {f'Fields: {named}' if named else ''} |"
            )
        elif inspect.isclass(kind) and issubclass(kind, enum.Enum):
            named = ", ".join(f"`{member.name}`" for member in kind)
            print(f"| `{kind.__name__}` | {_cell(_summary(kind))} Values: {named} |")
    print("\n## Exceptions\n\n```")
    print(
        inspect.cleandoc(recollect.errors.__doc__ or "").partition("\n\n")[2].partition("\n\n")[0]
    )
    print("```\n")


def code_map() -> None:
    """Print the packages of server, client and `packages/` with the first paragraph of their
    documentation.
    """
    print("\n| package | contents |\n| --- | --- |")
    tops = {"server/src/recollect_server": "server/…", "client/src/recollect": "client/…"}
    for source in sorted(ROOT.glob("packages/*/src/recollect")):
        place = source.relative_to(ROOT).as_posix()
        tops[place] = f"{place.removesuffix('/src/recollect')}/…"
    for top, shown in tops.items():
        for path in sorted((ROOT / top).rglob("__init__.py")):
            folder = path.parent.relative_to(ROOT / top)
            text = ast.get_docstring(ast.parse(path.read_text()))
            if text:
                name = f"{shown}/{folder}/" if folder.parts else f"{shown}/"
                print(f"| `{name}` | {_cell(_first_paragraph(text))} |")
    print()


@dataclass(frozen=True)
class _Field:
    name: str
    type: str
    comment: str


@dataclass(frozen=True)
class _Message:
    name: str
    comment: str
    fields: list[_Field]


@dataclass(frozen=True)
class _Enum:
    name: str
    comment: str
    values: list[tuple[str, str]]


@dataclass(frozen=True)
class _Call:
    name: str
    comment: str
    request: str
    answer: str
    is_stream: bool


@dataclass(frozen=True)
class _Service:
    name: str
    comment: str
    calls: list[_Call]


@dataclass(frozen=True)
class _Contract:
    services: list[_Service]
    messages: list[_Message]
    enums: list[_Enum]


@cache
def _contract() -> _Contract:
    """Return the contract as `buf build` reads it, with its comments."""
    buf = Path(sys.executable).parent / "buf"
    image = subprocess.run(
        [buf, "build", "--output", "-"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    services, messages, enums = [], [], []
    for file in FileDescriptorSet.FromString(image).file:
        if file.package != "recollect.v1":
            continue
        comments = {
            tuple(it.path): _paragraphs(it.leading_comments)
            for it in file.source_code_info.location
        }
        messages += [_message(it, (4, i), comments) for i, it in enumerate(file.message_type)]
        enums += [_enum(it, (5, i), comments) for i, it in enumerate(file.enum_type)]
        services += [
            _Service(
                service.name,
                comments.get((6, i), ""),
                [
                    _Call(
                        call.name,
                        comments.get((6, i, 2, j), ""),
                        _short(call.input_type),
                        _short(call.output_type),
                        call.server_streaming,
                    )
                    for j, call in enumerate(service.method)
                ],
            )
            for i, service in enumerate(file.service)
        ]
    return _Contract(
        sorted(services, key=lambda it: it.name != "ConversationService"), messages, enums
    )


def _message(
    message: DescriptorProto, path: tuple[int, ...], comments: dict[tuple[int, ...], str]
) -> _Message:
    fields = [
        _Field(it.name, _type(it), comments.get((*path, 2, i), ""))
        for i, it in enumerate(message.field)
    ]
    return _Message(message.name, comments.get(path, ""), fields)


def _enum(
    it: EnumDescriptorProto, path: tuple[int, ...], comments: dict[tuple[int, ...], str]
) -> _Enum:
    values = [
        (value.name, comments.get((*path, 2, i), "") + _form(value))
        for i, value in enumerate(it.value)
    ]
    return _Enum(it.name, comments.get(path, ""), values)


def _form(value: EnumValueDescriptorProto) -> str:
    """Return what texts of a form look like; nothing for any other value of an enum."""
    regex = value.options.Extensions[rule_pb2.pattern].regex
    return f" `{regex}`" if regex else ""


def _type(field: FieldDescriptorProto) -> str:
    """Return a field's type as the contract writes it."""
    name = (
        _short(field.type_name)
        or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    )
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {name}"
    return f"optional {name}" if field.proto3_optional else name


def _print_message(message: _Message, heading: str) -> None:
    print(
        f"\n{heading}\n\n{message.comment}"
        if heading.startswith("#")
        else f"\n{heading}: {message.comment}"
    )
    if message.fields:
        print("\n| field | type | meaning |\n| --- | --- | --- |")
        for field in message.fields:
            print(f"| `{field.name}` | {field.type} | {_cell(field.comment)} |")


_WIDTH = 110
_SHARED = 5
"""Commands with one and the same option from which it is printed once, before them all."""


def _print_help(
    command: click.Command, name: str, hidden: set[str], former: Collection[str] = ()
) -> None:
    """Print the help of a command and of those below it, without the flags of all settings, and of
    former ones. Options of many commands are printed once.
    """
    every = list(_commands(command, name, None))
    visible = [
        it
        for _, context in every
        for it in context.command.params
        if isinstance(it, click.Option) and not it.hidden and it.name not in former
    ]
    counts = Counter(map(_option, visible))
    shared = {_option(it): it for it in visible if counts[_option(it)] >= _SHARED}
    formatter = click.HelpFormatter(width=_WIDTH)
    with formatter.section("Options of several commands, which name them in brackets below"):
        records = [it.get_help_record(every[0][1]) for it in shared.values()]
        formatter.write_dl([it for it in records if it])
    print(f"\n```\n{formatter.getvalue().strip()}\n```")
    for title, context in every:
        every_param = context.command.params
        params = [it for it in every_param if it.name not in former]
        shown = [it for it in params if it.name not in hidden]
        has_settings = len(shown) < len(params)
        if not any(isinstance(it, click.Option) and it.hidden for it in params):
            params = shown
        taken = [it.opts[0] for it in params if it in visible and _option(it) in shared]
        context.command.params = [
            it for it in params if it not in visible or _option(it) not in shared
        ]
        context.command.add_help_option = not context.parent
        text = context.get_help().strip()
        if context.parent and isinstance(context.command, click.Group):
            text = text.partition("\n\nCommands:")[0]  # they follow
        if taken:
            text += f"\n\n  [{' '.join(taken)}]"
        print(f"\n### {title}\n\n```\n{text}\n```")
        if has_settings:
            print("\nAnd a flag for every [setting](settings.md).")
    print()


def _option(it: click.Parameter) -> tuple[str, str]:
    """Return what makes an option the same in two commands: its default may differ."""
    return it.opts[0], getattr(it, "help", None) or ""


def _commands(
    command: click.Command, title: str, parent: click.Context | None
) -> Iterator[tuple[str, click.Context]]:
    context = click.Context(
        command, parent, title.split()[-1], terminal_width=_WIDTH, max_content_width=_WIDTH
    )
    yield title, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _commands(below, f"{title} {name}", context)


def _parameters(function: Any) -> str:
    """Return a function's parameters with their defaults, without annotations."""
    parts: list[str] = []
    has_star = False
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
            parts.append("*")
            has_star = True
        stars = "*" * (parameter.kind is parameter.VAR_POSITIONAL) + "**" * (
            parameter.kind is parameter.VAR_KEYWORD
        )
        default = "" if parameter.default is parameter.empty else f"={_shown(parameter.default)}"
        parts.append(f"{stars}{parameter.name}{default}")
    return ", ".join(parts)


def _shown(value: object) -> str:
    """Return a default value as source, without addresses of objects."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    return repr(value) if isinstance(value, (str, int, float, bool, tuple, type(None))) else "…"


def _summary(it: Any) -> str:
    return _first_paragraph(inspect.getdoc(it) or "")


def _first_paragraph(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


def _paragraphs(comment: str) -> str:
    """Return a comment with one line per paragraph."""
    return "\n\n".join(
        " ".join(part.split()) for part in re.split(r"\n\s*\n", comment) if part.strip()
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n\n", "<br>")


def _short(name: str) -> str:
    return name.removeprefix(".").removeprefix("recollect.v1.").removeprefix("google.protobuf.")


def main(arguments: Sequence[str]) -> int:
    """Write the generated parts of the pages and the OpenAPI document, or with `--check` say which
    are not current.
    """
    pages = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if "[[[cog" in path.read_text()
    ]
    mode = ["--check"] if "--check" in arguments else ["-r"]
    cog = [
        sys.executable,
        "-m",
        "cogapp",
        "-P",
        "-I",
        "scripts",
        "-p",
        "import reference",
        *mode,
        *pages,
    ]
    if subprocess.run(cog, cwd=ROOT, check=False).returncode:
        print("The generated pages are not current: run `make docs` and commit.", file=sys.stderr)
        return 1
    document = [sys.executable, "scripts/openapi.py", *arguments]
    return subprocess.run(document, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
