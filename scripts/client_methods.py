"""Generate the client's methods, `recollect._async` and `recollect._shared.calls`, of the contract.

    python scripts/client_methods.py           # writes the modules
    python scripts/client_methods.py --check   # fails if one of them is not what this would write

A method takes the fields of its request, and returns the data class of its answer
(`scripts/client_types.py`). `scripts/client_methods.toml` has what the contract cannot say: the
docstrings with their examples, in the order of the methods, and per method

- `takes`: arguments that stand without their names; `?` behind one that may be left out
- `call`: its name in the contract, where it is another one
- `types`, `defaults`, `values`: of single arguments, in place of the usual ones
- `returns`, `reader`: its answer, where that is no data class as it stands
- `is_beyond`: a function of that name in `_async/beyond.py` carries it out

A list whose answers are pages becomes two methods: one iterates, one returns a page.
"""

import re
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, MethodDescriptorProto

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from scripts.client_types import (  # noqa: E402
    HOMES,
    Contract,
    formatted,
)

PACKAGE = ROOT / "client/src/recollect"
TABLE = ROOT / "scripts/client_methods.toml"
HEADER = "# Generated from proto and scripts/client_methods.toml by scripts/client_methods.py.\n"
TIMEOUT = "timeout: float | None = None"
SHORTHANDS = {
    "TurnRange": "tuple[int, int]",
    "OwnerIdentity": "tuple[str, str]",
    "AnchorSource": "tuple[str, int]",
    "ContextBudget": "int",
}
"""Types that stand for a data class in an argument."""
BUILTINS = {"format", "all"}
IMPORTS = {**HOMES, "Message": "message", "RecentPage": "recent", "Origin": "channel"}
"""Modules of `_types`, by what they define."""


class Service:
    """A service of the contract, whose calls are methods of one class of the client."""

    def __init__(self, contract: Contract, name: str, table: dict[str, Any]) -> None:
        self._contract = contract
        self.name = name
        self._doc = table["doc"]
        self.full_name = table["service"]
        self._calls = {it.name: it for it in contract.services[self.full_name].method}
        self._methods = {it: row for it, row in table.items() if isinstance(row, dict)}
        listed_calls = {self._call(it).name for it in self._methods}
        if missing := self._calls.keys() - listed_calls:
            raise SystemExit(f"{TABLE.name}: {name} has no {', '.join(sorted(missing))}")

    def module(self) -> str:
        """Return the text of its module."""
        parts = [self._method(it, row) for it, row in self._methods.items()]
        text = (
            f'{HEADER}"""`client.{self.name}`."""\n\n'
            "from collections.abc import AsyncIterator, Iterable, Mapping\n"
            "from datetime import datetime, timedelta\n"
            "from typing import Any\n\n"
            "from recollect._async import beyond\n"
            "from recollect._async.invoker import Invoker\n"
            "from recollect._async.watch import Watch\n"
            f"from recollect._shared import answers, calls\n{_imports()}\n\n"
            f"class {self.name.title()}:\n{_doc(self._doc, '    ')}\n\n"
            "    def __init__(self, invoker: Invoker) -> None:\n"
            "        self._invoker = invoker\n\n" + "\n\n".join(parts)
        )
        return formatted(text, f"{PACKAGE}/_async/{self.name}.py")

    def constants(self) -> str:
        """Return the lines of its calls in `calls`."""
        lines = [f'_{self.name} = Service({self.name}_pb.DESCRIPTOR, "{self.full_name}").method']
        for name, row in self._methods.items():
            call = self._call(name)
            reader = row.get("reader") or self._answer(call)[1]
            lines.append(f'{_constant(call)} = _{self.name}("{call.name}", {reader})')
        return "\n".join(lines)

    def _call(self, name: str) -> MethodDescriptorProto:
        call: str = self._methods[name].get("call") or "".join(map(str.capitalize, name.split("_")))
        return self._calls[call]

    def _answer(self, call: MethodDescriptorProto) -> tuple[str, str]:
        """Return the type of an answer, and its reader."""
        message = call.output_type.rpartition(".")[2]
        if kind := self._contract.class_of(message):
            return kind, f"reading({kind})"
        fields = self._contract.messages[message].field
        if not fields:
            return "None", "lambda _: None"
        kind = self._contract.type_of(fields[0])
        if fields[0].label == FieldDescriptorProto.LABEL_REPEATED:
            return f"tuple[{kind}, ...]", f'answers.several({kind}, "{fields[0].name}")'
        if fields[0].type != FieldDescriptorProto.TYPE_MESSAGE:
            return kind, f"lambda it: {kind}(it.{fields[0].name})"
        return kind, f'reading({kind}, "{fields[0].name}")'

    def _method(self, name: str, row: dict[str, Any]) -> str:
        """Return the text of a method, and of its twin that returns one page."""
        call = self._call(name)
        arguments, values = self._arguments(call, row)
        returns, doc = row.get("returns") or self._answer(call)[0], row["doc"]
        sent = (
            f"calls.{_constant(call)}({', '.join(f'{it}={value}' for it, value in values.items())})"
        )
        if call.server_streaming:
            of = re.sub(r".*\((\w+)\)", r"\1", row["reader"])
            return _text(
                f"def {name}", arguments, f"Watch[{of}]", doc, f"Watch(self._invoker, {sent})"
            )
        arguments.append(TIMEOUT)
        if row.get("is_beyond"):
            sent = (
                f"beyond.{name}(self._invoker, timeout, {', '.join(f'{it}={it}' for it in values)})"
            )
            return _text(f"async def {name}", arguments, returns, doc, f"await {sent}")
        run = f"await self._invoker.run({sent}, timeout)"
        if "page_token" not in values or not call.name.startswith("List"):
            return _text(f"async def {name}", arguments, returns, doc, run)
        item = self._contract.type_of(
            self._contract.messages[call.output_type.rpartition(".")[2]].field[0]
        )
        without = sent.replace(", page_token=page_token", "").replace("page_token=page_token, ", "")
        all_of_it = _text(
            f"def {name}",
            [it for it in arguments if not it.startswith("page_token")],
            f"AsyncIterator[{item}]",
            doc,
            f"self._invoker.iterate({without}, timeout)",
        )
        filters = ", with the same filters" if len(values) > 2 else ""
        page = (
            f"Return one page of `{name}`: the first, or with `page_token` the one after another{filters}.\n\n"
            f">>> page = await client.{self.name}.{name}_page(page_size=20)\n"
            ">>> token = page.next_page_token\n"
            f">>> page = await client.{self.name}.{name}_page(page_size=20, page_token=token)"
        )
        return all_of_it + "\n\n" + _text(f"async def {name}_page", arguments, returns, page, run)

    def _arguments(
        self, call: MethodDescriptorProto, row: dict[str, Any]
    ) -> tuple[list[str], dict[str, str]]:
        """Return the arguments of a method, and the values of the fields that it sends."""
        types, defaults = row.get("types", {}), dict(row.get("defaults", {}))
        message = self._contract.messages[call.input_type.rpartition(".")[2]]
        kinds, values = {}, {}
        for field in message.field:
            name = field.name
            oneof = message.oneof_decl[field.oneof_index].name if _is_choice(field) else ""
            if oneof:
                name, kinds[oneof] = oneof, oneof.title()
            else:
                kinds[name] = types.get(name) or self._type(field)
                if kinds[name] == "bool" and not field.proto3_optional:
                    defaults.setdefault(name, "False")
            usual = f"{name} or self._invoker.time_zone" if name == "time_zone" else name
            values[name] = row.get("values", {}).get(name, usual)
        if "max_batch" in values:
            values["max_batch"] = "answers.BATCH"
            del kinds["max_batch"]
        if row.get("is_beyond"):
            kinds.pop("page_token", None)
            values.pop("page_token", None)
        first = []
        for text in row.get("takes", "").split():
            name, _, default = text.partition("=")
            is_optional, name = name.endswith("?"), name.removesuffix("?")
            kind = kinds.pop(name)
            first.append(
                f"{name}: {kind} | None = None"
                if is_optional
                else f"{name}: {kind}{f' = {default}' if default else ''}"
            )
        last = [it for it in ("page_size", "request_id") if it in kinds]
        named = [it for it in kinds if it not in last]
        if "page_token" in named:
            named.sort(key=lambda it: it != "page_token")
        rest = [
            f"{it}: {kinds[it]}{f' = {defaults[it]}' if it in defaults else ' | None = None'}"
            for it in (*named, *last)
        ]
        return [*first, "*", *rest], values

    def _type(self, field: FieldDescriptorProto) -> str:
        """Return the type of the argument for a field."""
        kind = self._contract.type_of(field)
        if kind.endswith("Entry"):
            return "Mapping[str, float]"
        kind = {"Scope": "str", "dict[str, Any]": "Mapping[str, Any]"}.get(kind, kind)
        kind += f" | {SHORTHANDS[kind]}" if kind in SHORTHANDS else ""
        is_repeated = field.label == FieldDescriptorProto.LABEL_REPEATED
        return f"Iterable[{kind}]" if is_repeated else kind


def _is_choice(field: FieldDescriptorProto) -> bool:
    return field.HasField("oneof_index") and not field.proto3_optional


def _constant(call: MethodDescriptorProto) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", call.name).upper()


def _text(start: str, arguments: list[str], returns: str, doc: str, value: str) -> str:
    """Return the text of a method."""
    arguments = arguments[:-1] if arguments[-1] == "*" else arguments
    lines = [
        f"        {it},{'  # noqa: A002 - the contract says so' if it.partition(':')[0] in BUILTINS else ''}\n"
        for it in arguments
    ]
    body = value if returns == "None" else f"return {value}"
    return (
        f"    {start}(\n        self,\n{''.join(lines)}    ) -> {returns}:\n"
        f"{_doc(doc, '        ')}\n        {body}\n"
    )


def _doc(text: str, indent: str) -> str:
    """Return a docstring, its paragraphs wrapped and its examples as they are."""
    blocks = re.split(r"\n\n", text.strip())
    width = 100 - len(indent)
    wrapped = [
        it if it.startswith((">>>", "- ")) else _filled(it, width, first=not number)
        for number, it in enumerate(blocks)
    ]
    whole = "\n\n".join(wrapped)
    is_short = "\n" not in whole and len(whole) + 3 <= width
    return textwrap.indent(whole + ("" if is_short else "\n") + '"""', indent)


def _filled(text: str, width: int, *, first: bool) -> str:
    words = " ".join(text.split())
    return textwrap.fill(
        f'"""{words}' if first else words, width, break_long_words=False, break_on_hyphens=False
    )


def _imports() -> str:
    return "".join(
        f"from recollect._types.{module.replace('/', '.')} import {it}\n"
        for it, module in IMPORTS.items()
    )


def calls_module(services: list[Service]) -> str:
    """Return the text of `_shared/calls.py`."""
    modules = "".join(
        f"from recollect.v1 import {re.sub('(?<!^)(?=[A-Z])', '_', it.full_name).lower()}_pb2 as {it.name}_pb\n"
        for it in services
    )
    text = (
        f'{HEADER}"""The methods of the contract, by their services. Called with the fields of its'
        " request, a method\ngives a `Call`, whose answer is read as said here. Only `_sync` and"
        ' `_async` import this.\n"""\n\n'
        "from recollect._shared import answers\n"
        "from recollect._shared.read import reading\n"
        f"from recollect._shared.rpc import Service\n{_imports()}{modules}\n"
        + "\n\n".join(it.constants() for it in services)
    )
    return formatted(text, f"{PACKAGE}/_shared/calls.py")


def main(*, check: bool) -> int:
    """Write the modules, or name those that are not current."""
    contract = Contract()
    table = tomllib.loads(TABLE.read_text())
    services = {name: Service(contract, name, row) for name, row in table.items()}
    texts = {f"_async/{name}.py": it.module() for name, it in services.items()}
    texts["_shared/calls.py"] = calls_module([*services.values()])
    status = 0
    for name, text in texts.items():
        path = PACKAGE / name
        if not check:
            path.write_text(text)
        elif path.read_text() != text:
            print(f"{path.name} is not current: run scripts/client_methods.py", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv))
