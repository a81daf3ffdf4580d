"""Rules of fields: every wrong field of a request is named at once, each with its text.

The table `field_rules.json` has, for each call, requests with wrong fields and what is answered:
the texts are read by people and programs, so they change only on purpose. In a request
`{"$repeat": [text, n]}` is the text n times, `{"$many": [value, n]}` a list of it n times, and
`{"$nest": n}` n objects in one another.
"""

import json
from pathlib import Path
from typing import Any, cast

import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from tests.conftest import RunningServer

TABLE: dict[str, list[tuple[Any, list[str]]]] = json.loads(
    (Path(__file__).parent / "field_rules.json").read_text()
)


def whole(value: Any) -> Any:
    """Return a value of the table with its abbreviations written out."""
    match value:
        case {"$repeat": [text, count]}:
            return text * count
        case {"$many": [item, count]}:
            return [whole(item)] * count
        case {"$nest": int(levels)}:
            return {"k": whole({"$nest": levels - 1})} if levels else 1
        case dict():
            return {name: whole(it) for name, it in value.items()}
        case list():
            return [whole(it) for it in value]
    return value


def refusals(channel: grpc.Channel, rpc: str, request: Any) -> list[str]:
    """Return what a call is refused for, a line for each field."""
    service, name = rpc.split("/")
    method = (
        descriptor_pool.Default().FindServiceByName(f"recollect.v1.{service}").methods_by_name[name]
    )
    message = json_format.ParseDict(
        whole(request), message_factory.GetMessageClass(method.input_type)()
    )
    stub: Any = channel.unary_stream if method.server_streaming else channel.unary_unary
    call = stub(
        f"/recollect.v1.{rpc}",
        request_serializer=lambda it: it.SerializeToString(),
        response_deserializer=bytes,
    )
    try:
        answer = call(message, timeout=60)
        if method.server_streaming:
            next(answer)
            answer.cancel()
    except grpc.RpcError as error:
        status = rpc_status.from_call(cast(grpc.Call, error))
        bad = error_details_pb2.BadRequest()
        for detail in status.details if status else ():
            if detail.Unpack(bad):
                return [f"{it.field}: {it.description}" for it in bad.field_violations]
        return [f"{error.code().name}: {error.details()}"]
    return []


def test_every_wrong_field_is_named_at_once_with_its_text(server: RunningServer) -> None:
    wrong = []
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(server.target, options=options) as channel:
        for rpc, rows in TABLE.items():
            for request, expected in rows:
                if (answered := refusals(channel, rpc, request)) != expected:
                    wrong.append(f"{rpc} {json.dumps(request)[:300]}: {answered}, not {expected}")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong)
