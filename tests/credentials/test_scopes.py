"""Scopes in the contract: every call names those that it needs."""

import importlib
import pkgutil

import pytest
import recollect.v1
from google.protobuf.descriptor import MethodDescriptor
from recollect.v1 import scope_pb2

METHODS: dict[str, MethodDescriptor] = {
    method.full_name.removeprefix("recollect.v1."): method
    for it in pkgutil.iter_modules(recollect.v1.__path__)
    if it.name.endswith("_service_pb2")
    for service in importlib.import_module(
        f"recollect.v1.{it.name}"
    ).DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
"""Every call of the contract."""


@pytest.mark.parametrize("name", METHODS)
def test_every_call_names_the_scopes_that_it_needs(name: str) -> None:
    scopes = list(METHODS[name].GetOptions().Extensions[scope_pb2.scope])
    assert scopes
    assert len(set(scopes)) == len(scopes)
    assert scope_pb2.SCOPE_UNSPECIFIED not in scopes
    assert scopes == [scope_pb2.SCOPE_ANY] or scope_pb2.SCOPE_ANY not in scopes


def test_every_scope_but_the_administrators_is_needed_by_a_call() -> None:
    needed = {
        scope
        for method in METHODS.values()
        for scope in method.GetOptions().Extensions[scope_pb2.scope]
    }
    others = {scope_pb2.SCOPE_UNSPECIFIED, scope_pb2.SCOPE_ANY, scope_pb2.SCOPE_ADMIN}
    assert needed | others == set(scope_pb2.Scope.values())
