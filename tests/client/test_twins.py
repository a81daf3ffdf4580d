"""The two clients: the blocking one is generated from the asyncio one, and both cover the
contract.
"""

import ast
import asyncio
import inspect
import re
import runpy
import subprocess
import sys
from functools import cache
from pathlib import Path

import recollect
from google.protobuf.descriptor import ServiceDescriptor
from recollect import AsyncClient, Client
from recollect.v1 import (
    access_service_pb2,
    admin_service_pb2,
    channel_service_pb2,
    checkpoint_service_pb2,
    conversation_service_pb2,
    external_communication_service_pb2,
    insight_service_pb2,
    recall_service_pb2,
)

from tests.cases import each

UNASYNC = Path(__file__).parents[2] / "client" / "unasync.py"
SERVICES: dict[str, ServiceDescriptor] = {
    name: service
    for name, file in {
        "access": access_service_pb2,
        "admin": admin_service_pb2,
        "channels": channel_service_pb2,
        "checkpoints": checkpoint_service_pb2,
        "conversations": conversation_service_pb2,
        "external": external_communication_service_pb2,
        "insight": insight_service_pb2,
        "recall": recall_service_pb2,
    }.items()
    for service in file.DESCRIPTOR.services_by_name.values()
}
"""The service that each part of a client calls."""


@cache
def twins() -> dict[str, tuple[type, type]]:
    """Return the class of each part of the blocking client with that of the other one."""

    def parts(client: object) -> dict[str, object]:
        return {"": client} | {
            name: it for name, it in vars(client).items() if not name.startswith("_")
        }

    async def asyncio_parts() -> dict[str, object]:
        async with AsyncClient("127.0.0.1:1") as client:
            return parts(client)

    with Client("127.0.0.1:1") as client:
        blocking, asynchronous = parts(client), asyncio.run(asyncio_parts())
    assert blocking.keys() == asynchronous.keys() == {"", *SERVICES}
    both = {name: (type(blocking[name]), type(asynchronous[name])) for name in blocking}
    watches = (inspect.signature(it.watch) for it in both["conversations"])  # type: ignore[attr-defined]
    sync, twin = (it.return_annotation.__origin__ for it in watches)
    both["watch"] = sync, twin
    return both


def public_methods(kind: type) -> list[str]:
    return [
        name
        for name, member in vars(kind).items()
        if inspect.isfunction(member) and not name.startswith("_")
    ]


def test_the_blocking_client_is_what_the_script_generates_from_the_asyncio_one() -> None:
    script = runpy.run_path(str(UNASYNC))
    for path in script["SOURCE"].glob("*.py"):
        is_current = (script["TARGET"] / path.name).read_text() == script["generate"](path, set())
        assert is_current, f"{path.name} is not: run `make format`"


@each("part", ["", *SERVICES, "watch"])
def test_both_clients_have_the_same_public_methods_each_with_an_example(part: str) -> None:
    sync, twin = twins()[part]
    assert public_methods(sync) == public_methods(twin) != []
    for name in public_methods(sync):
        blocking, asynchronous = getattr(sync, name).__doc__, getattr(twin, name).__doc__
        assert ">>> " in blocking
        assert not re.search(r"\b(await|async)\b", blocking)
        assert re.search(r"\b(await|async)\b", asynchronous)


def method_of(rpc: str) -> str:
    """Return the client's method for an RPC of the contract."""
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", rpc).lower()
    return {"stream_updates": "watch", "stream_communication_updates": "watch"}.get(snake, snake)


@each(("part", "service"), SERVICES.items())
def test_every_rpc_has_its_method(part: str, service: ServiceDescriptor) -> None:
    group, _ = twins()[part]
    assert {name for name in public_methods(group) if not name.endswith("_page")} == {
        method_of(it.name) for it in service.methods
    }


ELSEWHERE = {
    "StreamUpdatesRequest": {"max_batch"},  # the client's own business
    "ReceiveRequest": {"whatsapp", "email", "discord", "cli", "web"},  # `origin` is one of them
    "ListAnchorsRequest": {"page_token"},  # `list_anchors` reads all pages
}


@each(("part", "service"), SERVICES.items())
def test_every_field_of_a_request_can_be_given(part: str, service: ServiceDescriptor) -> None:
    group, _ = twins()[part]
    for method in service.methods:
        name = method_of(method.name)
        fields = {field.name for field in method.input_type.fields} - ELSEWHERE.get(
            method.input_type.name, set()
        )
        given = set(inspect.signature(getattr(group, name)).parameters)
        if of_a_page := getattr(group, f"{name}_page", None):
            assert set(inspect.signature(of_a_page).parameters) == given | {"page_token"}, name
            given.add("page_token")
        assert fields <= given, name


def test_every_public_name_is_exported_and_has_a_docstring() -> None:
    assert sorted(recollect.__all__) == sorted({*recollect.__all__, *recollect.errors.__all__})
    for name in recollect.__all__:
        assert (getattr(recollect, name).__doc__ or "").strip(), name


@each("module", sorted((Path(recollect.__file__).parent / "_types").rglob("*.py")))
def test_every_attribute_of_a_data_class_has_a_docstring(module: Path) -> None:
    for node in ast.parse(module.read_text()).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for attribute, after in zip(node.body, [*node.body[1:], None], strict=True):
            if isinstance(attribute, ast.AnnAssign | ast.Assign):
                documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                assert documented, f"{node.name}: {ast.unparse(attribute)}"


def test_no_docstring_of_the_client_opens_with_a_question_word() -> None:
    openings = re.compile(r"(What|Whether|Where|Who|Whom|Whose|How|When)\b")
    package = Path(recollect.__file__).parent
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                assert not openings.match(node.value.value.strip()), (
                    f"{path.relative_to(package)}:{node.lineno}"
                )


def test_the_generated_code_alone_imports_nothing_of_the_client() -> None:
    """A server starts with it, and would take a sixth longer with the client."""
    program = "import sys, recollect.v1.message_pb2; print([name for name in sys.modules if name.startswith('recollect._')])"
    assert (
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout
        == "['recollect._commit']\n"  # of the version
    )
