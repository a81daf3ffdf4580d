"""Scopes in the contract: every call names those that it needs."""

from google.protobuf import descriptor_pb2, descriptor_pool
from recollect.v1 import scope_pb2
from recollect_server.access.principal import Scope
from recollect_server.contract.gate import scopes_of

from tests.cases import each
from tests.credentials.contract import METHODS


@each("name", METHODS)
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


def test_the_scopes_of_the_server_are_those_of_the_contract() -> None:
    named = {
        name.removeprefix("SCOPE_").lower().replace("_", ".")
        for name in scope_pb2.Scope.keys()  # noqa: SIM118
    }
    assert {str(scope) for scope in Scope} == named - {"unspecified"}


def test_a_method_that_names_no_scope_is_denied_to_everybody() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="made_up.proto", package="recollect.v1")
    file.message_type.add(name="MadeUp")
    file.service.add(name="MadeUpService").method.add(
        name="Call", input_type=".recollect.v1.MadeUp", output_type=".recollect.v1.MadeUp"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    method = pool.FindMethodByName("recollect.v1.MadeUpService.Call")
    assert scopes_of(method) == frozenset()
