"""Bad input: a field of a request that is wrong is refused by its name and a reason, and nothing is
written.
"""

from collections.abc import Callable

from google.protobuf.message import Message as ProtoMessage
from google.protobuf.timestamp_pb2 import Timestamp
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import recall_service_pb2 as recall_api
from recollect.v1.conversation_pb2 import Party
from recollect.v1.message_pb2 import Attachment, ToolCall, Usage
from recollect.v1.recall_pb2 import DateRange

from tests.cases import each
from tests.conftest import MovableClock, RunningServer
from tests.server.conftest import UNKNOWN, Service, agent, assert_refused, failure_of, moment, user

DAY = 86_400_000

LATE = 253_402_300_799_000  # the last second of the year 9999

MIB = 1 << 20

IDS = [
    "",
    "x",
    "conv-",
    "../../etc/passwd",
    "conv-../../../etc/passwd00000",
    "conv-01J0000000000000000000000/",
    UNKNOWN.lower(),
    UNKNOWN + "0",
    UNKNOWN[:-1],
    " " + UNKNOWN,
    UNKNOWN + "\n",
    UNKNOWN.replace("01J", "81J"),
    UNKNOWN.replace("J", "I"),
    UNKNOWN.replace("0", "O"),
    "conv-０1J00000000000000000000000",
    UNKNOWN + ".jsonl",
    "conv-*",
    "CONV" + UNKNOWN[4:],
    "/" + UNKNOWN,
    "a" * 100_000,
    UNKNOWN[:-1] + "\0",
]


@each("name", IDS)
def test_what_is_not_the_name_of_a_conversation_is_refused_by_every_call(
    service: Service, server: RunningServer, name: str
) -> None:
    service.conversation_of("something")
    calls: list[Callable[[], object]] = [
        lambda: service.get(name),
        lambda: service.append(name, user("x")),
        lambda: service.rename(name, "T"),
        lambda: service.conversations.SetModel(api.SetModelRequest(conversation_id=name)),
        lambda: service.compress(name, 1, "s"),
        lambda: service.abbreviate(name, "s"),
        lambda: service.delete(name),
        lambda: service.context(name),
    ]
    if name:  # unset, it is left out
        calls += [lambda: service.load(name), lambda: service.search("x", conversation_id=name)]
    for call in calls:
        assert_refused(service, server, call, "conversation_id")
    if name:
        assert_refused(
            service,
            server,
            lambda: service.conversations.Switch(api.SwitchRequest(from_conversation_id=name)),
            "from_conversation_id",
        )
        assert_refused(
            service,
            server,
            lambda: service.conversations.Switch(api.SwitchRequest(to_conversation_id=name)),
            "to_conversation_id",
        )


REQUESTS: list[tuple[ProtoMessage, str]] = [
    (api.CreateRequest(), "channel"),
    (api.CreateRequest(channel="Web"), "channel"),
    (api.CreateRequest(channel="web "), "channel"),
    (api.CreateRequest(channel="wéb"), "channel"),
    (api.CreateRequest(channel="-web"), "channel"),
    (api.CreateRequest(channel="../web"), "channel"),
    (api.CreateRequest(channel="w" * 33), "channel"),
    (api.CreateRequest(channel="web\0"), "channel"),
    (api.CreateRequest(channel="web\n"), "channel"),
    (api.CreateRequest(channel="web", participants=[""]), "participants[0]"),
    (api.CreateRequest(channel="web", participants=["a", "b" * 257]), "participants[1]"),
    (api.CreateRequest(channel="web", participants=["a", "a"]), "participants"),
    (api.CreateRequest(channel="web", participants=[str(n) for n in range(65)]), "participants"),
    (api.CreateRequest(channel="web", participants=["a\0"]), "participants[0]"),
    (api.CreateRequest(channel="web", participants=["a", "Ann\u2028Bob"]), "participants[1]"),
    (api.CreateRequest(channel="web", party=Party(contact="c" * 321)), "party.contact"),
    (api.CreateRequest(channel="web", party=Party(group_id="c" * 321)), "party.group_id"),
    (api.CreateRequest(channel="web", party=Party(thread_id="c" * 999)), "party.thread_id"),
    (api.CreateRequest(channel="web", party=Party(subject="c" * 999)), "party.subject"),
    (api.CreateRequest(channel="web", party=Party(subject="\0")), "party.subject"),
    (api.CreateRequest(channel="web", model="m" * 129), "model"),
    (api.CreateRequest(channel="web", create_time=Timestamp(seconds=-5)), "create_time"),
    (api.CreateRequest(channel="web", create_time=moment(LATE)), "create_time"),
    (api.CreateRequest(channel="web", request_id="x" * 129), "request_id"),
    (api.CreateRequest(channel="web", request_id="with space"), "request_id"),
    (api.CreateRequest(channel="web", request_id="tab\t"), "request_id"),
    (api.CreateRequest(channel="web", request_id="ü"), "request_id"),
    (api.CreateRequest(channel="web", request_id="nul\0"), "request_id"),
    (api.CreateRequest(channel="web", request_id="\x7f"), "request_id"),
    (api.ListRequest(page_size=-1), "page_size"),
    (api.ListRequest(channels=["web", "Web"]), "channels[1]"),
    (api.ListRequest(channels=[""]), "channels[0]"),
    (api.ListRequest(channels=[f"c{n}" for n in range(40_000)]), "channels"),
    (api.ListRequest(topics=["Not Kebab"]), "topics[0]"),
    (api.ListRequest(topics=["a"] * 65), "topics"),
    (api.ListRequest(party=Party(contact="c" * 321)), "party.contact"),
    (api.ListRequest(updated_after=moment(9000), updated_before=moment(9000)), "updated_before"),
    (api.ListRequest(updated_after=moment(9001), updated_before=moment(9000)), "updated_before"),
    (api.ListRequest(updated_after=Timestamp(seconds=-1)), "updated_after"),
    (api.ListRequest(updated_before=Timestamp(seconds=2**62)), "updated_before"),
    (api.ListRequest(query="x" * 257), "query"),
    (api.ListRequest(query="\0"), "query"),
    (api.ListRequest(participants=["a", "a"]), "participants"),
    (api.ListRequest(participants=["a", "b" * 257]), "participants[1]"),
    (api.DeleteManyRequest(participants=[""]), "participants[0]"),
    (api.LoadRequest(), "channel"),
    (api.LoadRequest(channel="Web"), "channel"),
    (api.LoadRequest(channel="web", max_turns=-1), "max_turns"),
    (api.LoadRequest(channel="web", max_tokens=-1), "max_tokens"),
    (api.LoadRequest(channel="web", before_turn=-1), "before_turn"),
    (api.LoadRequest(channel="web", max_turns=-(2**31)), "max_turns"),
    (
        api.AppendTurnRequest(conversation_id=UNKNOWN, messages=[user("x")], expected_turn=-1),
        "expected_turn",
    ),
    (
        api.AppendTurnRequest(conversation_id=UNKNOWN, messages=[user("x")], draft_id="d" * 129),
        "draft_id",
    ),
    (
        api.AppendTurnRequest(conversation_id=UNKNOWN, messages=[user("x")], request_id=" "),
        "request_id",
    ),
    (api.SwitchRequest(), "to_conversation_id"),
    (api.SwitchRequest(to_conversation_id=UNKNOWN, max_turns=-1), "max_turns"),
    (api.RenameRequest(conversation_id=UNKNOWN), "title"),
    (api.RenameRequest(conversation_id=UNKNOWN, title=" \t\u2003"), "title"),
    (api.RenameRequest(conversation_id=UNKNOWN, title="x" * 81), "title"),
    (api.RenameRequest(conversation_id=UNKNOWN, title="x" * 500), "title"),
    (api.RenameRequest(conversation_id=UNKNOWN, title="two\nlines"), "title"),
    (api.RenameRequest(conversation_id=UNKNOWN, title="two\rlines"), "title"),
    (api.RenameRequest(conversation_id=UNKNOWN, title="two\u2028lines"), "title"),
    (api.RenameRequest(conversation_id=UNKNOWN, title="two\x85lines"), "title"),
    (api.RenameRequest(conversation_id=UNKNOWN, title="a\0"), "title"),
    (api.SetModelRequest(conversation_id=UNKNOWN, model="m" * 129), "model"),
    (api.RecordCompressionRequest(conversation_id=UNKNOWN, compressed_through=1), "summary"),
    (
        api.RecordCompressionRequest(conversation_id=UNKNOWN, compressed_through=1, summary=" "),
        "summary",
    ),
    (
        api.RecordCompressionRequest(conversation_id=UNKNOWN, compressed_through=0, summary="s"),
        "compressed_through",
    ),
    (
        api.RecordCompressionRequest(
            conversation_id=UNKNOWN, compressed_through=1, summary="s" * (MIB + 1)
        ),
        "summary",
    ),
    (
        api.RecordCompressionRequest(conversation_id=UNKNOWN, compressed_through=1, summary="a\0"),
        "summary",
    ),
    (api.RecordAbbreviationRequest(conversation_id=UNKNOWN), "text"),
    (api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="x" * (16 * 1024 + 1)), "text"),
    (api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="\0"), "text"),
    (api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="x", topics=["a"] * 17), "topics"),
    (
        api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="x", topics=["ok", "Upper"]),
        "topics[1]",
    ),
    (api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="x", topics=["-a"]), "topics[0]"),
    (
        api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="x", topics=["a--b"]),
        "topics[0]",
    ),
    (api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="x", topics=[""]), "topics[0]"),
    (
        api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="x", topics=["a" * 65]),
        "topics[0]",
    ),
    (api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="x", topics=["a\n"]), "topics[0]"),
    (api.DeleteRequest(conversation_id=UNKNOWN, anchors=7), "anchors"),  # type: ignore[arg-type]
    (recall_api.BuildContextRequest(conversation_id=UNKNOWN, query="x" * 65_537), "query"),
    (recall_api.BuildContextRequest(conversation_id=UNKNOWN, query="\0"), "query"),
    (recall_api.SearchRequest(), "query"),
    (recall_api.SearchRequest(query="x", limit=-1), "limit"),
    (recall_api.SearchRequest(query="x", min_score=-0.1), "min_score"),
    (recall_api.SearchRequest(query="x", min_score=1.1), "min_score"),
    (recall_api.SearchRequest(query="x", min_score=float("nan")), "min_score"),
    (recall_api.SearchRequest(query="x", channel="Web"), "channel"),
    (recall_api.SearchRequest(query="x", topics=["A"]), "topics[0]"),
    (recall_api.SearchRequest(query="x", topics=["a"] * 65), "topics"),
    (recall_api.SearchRequest(query="x", participants=[""]), "participants[0]"),
    (recall_api.SearchRequest(query="x", participants=[str(n) for n in range(65)]), "participants"),
    (
        recall_api.SearchRequest(
            query="x", date_range=DateRange(start=moment(2000), end=moment(1000))
        ),
        "date_range.end",
    ),
    (
        recall_api.SearchRequest(
            query="x", date_range=DateRange(start=moment(2000), end=moment(2000))
        ),
        "date_range.end",
    ),
    (
        recall_api.SearchRequest(query="x", date_range=DateRange(start=Timestamp(seconds=-1))),
        "date_range.start",
    ),
    (
        recall_api.SearchRequest(
            query="x", date_range=DateRange(end=Timestamp(seconds=1, nanos=-1))
        ),
        "date_range.end",
    ),
    (recall_api.RecentRequest(limit=-1), "limit"),
    (recall_api.RecentRequest(channel="Web"), "channel"),
    (recall_api.RecentRequest(after=moment(2000), before=moment(1000)), "before"),
    (recall_api.RecentRequest(order=9), "order"),  # type: ignore[arg-type]
]


def call_of(service: Service, request: ProtoMessage) -> Callable[[], object]:
    """Return a call of the method that takes this request."""
    name = request.DESCRIPTOR.name.removesuffix("Request")
    stub = service.recall if hasattr(service.recall, name) else service.conversations
    return lambda: getattr(stub, name)(request)


@each(("request_", "field"), REQUESTS)
def test_a_wrong_field_is_refused_by_its_name(
    service: Service, server: RunningServer, request_: ProtoMessage, field: str
) -> None:
    assert_refused(service, server, call_of(service, request_), field)


def test_a_field_that_is_left_out_is_called_required(service: Service) -> None:
    load, create = failure_of(service.load), failure_of(lambda: service.create(channel=""))
    assert "channel: is required where conversation_id is unset" in load.text
    assert "channel: is required: 1 to 32 lower case letters" in create.text


def test_times_are_measured_by_the_servers_clock(
    service: Service, server: RunningServer, clock: MovableClock
) -> None:
    clock.now = 4_000_000_000_000  # in 2096
    conversation_id = service.create(create_time=moment(clock.now + DAY)).id
    service.append(conversation_id, user("tomorrow", timestamp=moment(clock.now + DAY)))
    late = moment(clock.now + DAY + 1000)
    assert_refused(
        service,
        server,
        lambda: service.append(conversation_id, user("x", timestamp=late)),
        "messages[0].timestamp",
    )
    assert_refused(service, server, lambda: service.create(create_time=late), "create_time")
    clock.now = 1_000_000_000_000  # in 2001
    late = moment(clock.now + DAY + 1000)
    assert_refused(
        service,
        server,
        lambda: service.append(conversation_id, user("x", timestamp=late)),
        "messages[0].timestamp",
    )


def test_what_is_just_inside_the_limits_is_taken(service: Service) -> None:
    party = Party(contact="c" * 320, group_id="g" * 320, thread_id="t" * 998, subject="s" * 998)
    participants = ["ü" * 256, *(str(n) for n in range(63))]
    made = service.create(
        "a0_-" * 8, participants=participants, party=party, model="m" * 128, request_id="~" * 128
    )
    assert (made.party, list(made.participants)) == (party, participants)
    calls = [ToolCall(id=f"{n:0256}", name="n" * 256) for n in range(128)]
    attachments = [Attachment(media_type="m" * 255, uri="u" * 8192, bytes_length=2**63 - 1)] * 64
    message = agent(
        "",
        sender="s" * 256,
        tool_calls=calls,
        attachments=attachments,
        cost=0.0,
        usage=Usage(),
        channel="c" * 32,
    )
    message.metadata.update({"k": "x" * 65_000})
    stored = service.append(made.id, message, draft_id="d" * 128).messages[0]
    assert (stored.tool_calls, stored.attachments, stored.metadata) == (
        message.tool_calls,
        message.attachments,
        message.metadata,
    )
    assert service.rename(made.id, "🦓" * 80).title == "🦓" * 80
    assert (
        service.abbreviate(
            made.id, "n" * 16_384, ["a" * 64, *(f"topic-{n}" for n in range(15))]
        ).abbreviation
        == "n" * 16_384
    )
    assert service.compress(made.id, 1, "s" * MIB).compressed_through == 1
