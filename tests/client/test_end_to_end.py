"""The client against the real server: every method once, with what it promises."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
import recollect
from recollect import Attachment, Message, Party, Role, ToolCall, Usage
from recollect.v1.conversation_service_pb2 import LoadRequest
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub
from recollect.v1.recall_service_pb2 import FetchContextRequest
from recollect.v1.recall_service_pb2_grpc import RecallServiceStub

from tests.conftest import RunningServer, Start

TURN = (
    Message.user("Why is the server slow?", sender="Caroline", metadata={"ticket": 17}),
    Message.assistant(
        thinking_text="Perhaps the disk.",
        tool_calls=[ToolCall("call-1", "df", '{"path": "/"}')],
        usage=Usage(1200, 35),
        cost=0.004,
    ),
    Message.tool("/dev/sda1  97%", tool_call_id="call-1"),
    Message.assistant("The disk is full: logs, mostly.", usage=Usage(1300, 20), cost=0.001),
)


def test_a_conversation_is_created_with_all_that_was_given(client: recollect.Client) -> None:
    began = datetime(2025, 3, 1, 8, 30, tzinfo=UTC)
    created = client.conversations.create(
        "email",
        participants=["alex", "sam"],
        party=Party(contact="sam@example.org", subject="The invoice"),
        model="haiku",
        create_time=began,
    )
    assert created.id.startswith("conv-")
    assert (created.channel, created.participants, created.model) == (
        "email",
        ("alex", "sam"),
        "haiku",
    )
    assert created.party == Party(contact="sam@example.org", subject="The invoice")
    assert (created.create_time, created.update_time, created.title) == (began, began, "")
    assert client.conversations.get(created.id) == created


def test_a_turn_comes_back_as_it_was_appended(client: recollect.Client) -> None:
    conversation = client.conversations.create("web")
    stored = client.conversations.append_turn(conversation.id, TURN)
    assert (stored.turn_number, stored.duplicate, stored.conversation.message_count) == (
        1,
        False,
        4,
    )
    assert stored.conversation.usage_total == Usage(2500, 55)
    assert stored.conversation.cost_total == pytest.approx(0.005)
    loaded = client.conversations.load(conversation.id)
    assert loaded.messages == stored.messages
    assert (loaded.conversation, loaded.has_more, loaded.damaged_lines) == (
        stored.conversation,
        False,
        0,
    )
    for sent, back in zip(TURN, loaded.messages, strict=True):
        assert back.role is sent.role
        assert (back.content, back.thinking_text, back.usage, back.cost) == (
            sent.content,
            sent.thinking_text,
            sent.usage,
            sent.cost,
        )
        assert (back.tool_calls, back.tool_call_id, back.metadata) == (
            sent.tool_calls,
            sent.tool_call_id,
            sent.metadata,
        )
        assert back.timestamp is not None
        assert back.timestamp.tzinfo is UTC
        assert back.sequence > 1


def test_a_message_keeps_its_own_time_and_its_attachments(client: recollect.Client) -> None:
    conversation = client.conversations.create("web")
    sent_at = datetime(2024, 12, 24, 18, 0, 0, 5000, tzinfo=UTC)
    message = Message.user(
        attachments=[Attachment("image/png", "file:///tree.png", 12)], timestamp=sent_at
    )
    stored = client.conversations.append_turn(conversation.id, [message]).messages[0]
    assert (stored.timestamp, stored.attachments) == (sent_at, message.attachments)


def test_the_same_request_id_stores_once_and_with_another_payload_is_refused(
    client: recollect.Client,
) -> None:
    conversation = client.conversations.create("web")
    first = client.conversations.append_turn(
        conversation.id, [Message.user("once")], request_id="run-1"
    )
    again = client.conversations.append_turn(
        conversation.id, [Message.user("once")], request_id="run-1"
    )
    assert (again.messages, first.duplicate, again.duplicate) == (first.messages, False, True)
    with pytest.raises(recollect.AlreadyExists) as caught:
        client.conversations.append_turn(
            conversation.id, [Message.user("other")], request_id="run-1"
        )
    assert caught.value.reason is recollect.ErrorReason.REQUEST_ID_REUSED
    assert caught.value.metadata["request_id"] == "run-1"
    assert client.conversations.get(conversation.id).message_count == 1


def test_an_append_to_a_turn_that_is_not_the_newest_is_told_apart(client: recollect.Client) -> None:
    conversation = client.conversations.create("web")
    client.conversations.append_turn(conversation.id, [Message.user("one")], expected_turn=0)
    with pytest.raises(recollect.TurnOutOfDate) as caught:
        client.conversations.append_turn(conversation.id, [Message.user("two")], expected_turn=0)
    assert caught.value.metadata == {"expected_turn": "0", "turn_count": "1"}
    assert client.conversations.get(conversation.id).message_count == 1


def test_what_the_server_refuses_names_its_fields(client: recollect.Client) -> None:
    conversation = client.conversations.create("web")
    with pytest.raises(recollect.InvalidArgument) as caught:
        client.conversations.append_turn(conversation.id, [Message.user("ok"), Message.user("")])
    assert caught.value.reason is recollect.ErrorReason.INVALID_FIELD
    assert [violation.field for violation in caught.value.violations] == ["messages[1].content"]
    with pytest.raises(recollect.InvalidArgument) as wrong_token:
        client.conversations.list_page(page_token="nonsense")  # noqa: S106
    assert wrong_token.value.reason is recollect.ErrorReason.INVALID_PAGE_TOKEN
    with pytest.raises(recollect.InvalidArgument):
        client.conversations.get("../../etc/passwd")


def test_a_conversation_that_does_not_exist_is_not_found(client: recollect.Client) -> None:
    missing = "conv-01HQ0000000000000000000000"
    with pytest.raises(recollect.NotFound) as caught:
        client.conversations.get(missing)
    assert caught.value.reason is recollect.ErrorReason.CONVERSATION_NOT_FOUND
    assert caught.value.metadata["conversation_id"] == missing


def test_a_list_has_all_pages_newest_first(client: recollect.Client) -> None:
    ids = [client.conversations.create("listing").id for _ in range(7)]
    for conversation_id in ids:
        client.conversations.append_turn(conversation_id, [Message.user("Hi")])
    listed = [
        conversation.id
        for conversation in client.conversations.list(channels=["listing"], page_size=3)
    ]
    assert sorted(listed) == sorted(ids)
    page = client.conversations.list_page(channels=["listing"], page_size=3)
    assert [conversation.id for conversation in page] == listed[:3]
    following = client.conversations.list_page(
        channels=["listing"], page_size=3, page_token=page.next_page_token
    )
    assert [conversation.id for conversation in following] == listed[3:6]
    assert list(client.conversations.list(channels=["nowhere"])) == []


def test_history_is_loaded_page_by_page(client: recollect.Client) -> None:
    conversation = client.conversations.create("web")
    for number in range(1, 6):
        client.conversations.append_turn(conversation.id, [Message.user(f"question {number}")])
    newest = client.conversations.load(conversation.id, max_turns=2)
    assert ([message.turn_number for message in newest.messages], newest.has_more) == ([4, 5], True)
    before = client.conversations.load(conversation.id, max_turns=2, before_turn=4)
    assert [message.content for message in before.messages] == ["question 2", "question 3"]


def test_the_most_recent_conversation_of_a_channel_is_loaded_and_none_where_there_is_none(
    client: recollect.Client,
) -> None:
    conversation = client.conversations.create("cli")
    client.conversations.append_turn(conversation.id, [Message.user("ls")])
    loaded = client.conversations.load(channel="cli")
    assert loaded.conversation is not None
    assert loaded.conversation.id == conversation.id
    assert client.conversations.load(channel="discord").conversation is None


def test_a_switch_loads_the_other_conversation(client: recollect.Client) -> None:
    old, new = client.conversations.create("web"), client.conversations.create("web")
    client.conversations.append_turn(new.id, [Message.user("here")])
    loaded = client.conversations.switch(old.id, new.id)
    assert loaded.conversation is not None
    assert (loaded.conversation.id, loaded.messages[0].content) == (new.id, "here")
    assert client.conversations.switch(new.id).conversation is None


def test_a_conversation_begins_with_its_first_messages_and_is_answered_late(
    client: recollect.Client,
) -> None:
    call = ToolCall("c1", "df", "{}")
    first = [
        Message.user("Full?"),
        Message.assistant("", tool_calls=[call]),
        Message.user("And now?"),
    ]
    conversation = client.conversations.create("web", messages=first)
    assert (conversation.message_count, conversation.turn_count) == (3, 2)
    client.conversations.append_turn(conversation.id, [Message.tool("97%", tool_call_id="c1")])
    stored = client.conversations.append_turn(
        conversation.id, [Message.assistant("Yes.")], in_reply_to_turn=1
    )
    assert (stored.turn_number, stored.conversation.turn_count) == (1, 2)
    there = [
        (it.turn_number, it.content) for it in client.conversations.load(conversation.id).messages
    ]
    assert there == [(1, "Full?"), (1, ""), (1, "97%"), (1, "Yes."), (2, "And now?")]


def test_a_pinned_conversation_is_deleted_with_force(client: recollect.Client) -> None:
    received = client.channels.receive("cli", "1", "Hello").outcome
    assert isinstance(received, recollect.StoredInConversation)
    with pytest.raises(recollect.FailedPrecondition) as raised:
        client.conversations.delete(received.conversation.id)
    assert raised.value.reason == "ERROR_REASON_CONVERSATION_PINNED"
    assert (
        client.conversations.delete(received.conversation.id, force=True).conversation_id
        == received.conversation.id
    )


def test_a_watch_begins_with_what_it_chooses(client: recollect.Client) -> None:
    web = client.conversations.create("web", messages=[Message.user("on the web")])
    client.conversations.create("cli", messages=[Message.user("on the line")])
    with client.conversations.watch(load_channel="web", list_channels=["cli"]) as watch:
        listed, loaded = next(watch).kind, next(watch).kind
    assert isinstance(listed, recollect.ConversationList)
    assert isinstance(loaded, recollect.LoadedConversation)
    assert loaded.conversation is not None
    assert ([it.channel for it in listed.conversations], loaded.conversation.id) == (
        ["cli"],
        web.id,
    )
    with client.conversations.watch(load_conversation_id=web.id) as watch:
        assert len(next(watch).kind.conversations) == 2  # type: ignore[union-attr]


def test_a_name_a_model_and_notes_are_kept(client: recollect.Client) -> None:
    conversation = client.conversations.create("web")
    client.conversations.append_turn(conversation.id, TURN)
    client.conversations.rename(conversation.id, "Server Monitoring")
    client.conversations.set_model(conversation.id, "haiku")
    client.conversations.record_abbreviation(
        conversation.id, "Decided: rotate the logs.", topics=["log-rotation"]
    )
    again = client.conversations.get(conversation.id)
    assert (again.title, again.manually_named, again.model) == ("Server Monitoring", True, "haiku")
    assert (again.abbreviation, again.topics) == ("Decided: rotate the logs.", ("log-rotation",))
    assert [
        it.id for it in client.conversations.list(query="monitor", topics=["log-rotation"])
    ] == [conversation.id]
    assert client.conversations.set_model(conversation.id, "").model == ""


def test_a_compression_stands_for_the_turns_it_covers(client: recollect.Client) -> None:
    conversation = client.conversations.create("web")
    for number in (1, 2, 3):
        client.conversations.append_turn(conversation.id, [Message.user(f"question {number}")])
    after = client.conversations.record_compression(conversation.id, 2, "Two questions were asked.")
    assert after.compressed_through == 2
    loaded = client.conversations.load(conversation.id)
    assert loaded.compression_summary == "Two questions were asked."
    assert [message.content for message in loaded.messages] == ["question 3"]


def test_what_was_said_is_found_again(client: recollect.Client) -> None:
    conversation = client.conversations.create("web")
    client.conversations.append_turn(conversation.id, TURN)
    answer = client.recall.search("logs", conversation_id=conversation.id, explain=True)
    assert [result.conversation_id for result in answer.results] == [conversation.id]
    hit = answer.hits[0]
    assert (hit.conversation_id, hit.turn_number, hit.role) == (conversation.id, 1, Role.ASSISTANT)
    assert f"{recollect.MATCH_START}logs{recollect.MATCH_END}" in hit.snippet
    assert [hit.snippet_text[it.start : it.end] for it in hit.snippet_matches] == ["logs"]
    assert 0 < hit.score <= 1
    assert hit.explanation
    assert answer.legs_run
    assert answer.results[0].turn_range == recollect.TurnRange(1, 1)
    before = recollect.DateRange(end=hit.date)
    assert client.recall.search("logs", date_range=before).hits == ()
    since = recollect.DateRange(start=hit.date, end=hit.date + timedelta(seconds=1))
    assert hit.sequence in [
        match.sequence for match in client.recall.search("logs", date_range=since).hits
    ]


def test_turns_around_a_hit_are_fetched(client: recollect.Client) -> None:
    conversation = client.conversations.create("web")
    for number in range(1, 6):
        client.conversations.append_turn(conversation.id, [Message.user(f"question {number}")])
    fetched = client.recall.fetch_context(conversation.id, (2, 3))
    assert [message.content for message in fetched.messages] == ["question 2", "question 3"]
    assert (fetched.total_turns, fetched.channel, fetched.damaged_lines) == (5, "web", 0)
    assert client.recall.fetch_context(conversation.id, recollect.TurnRange(2, 3)) == fetched
    assert len(client.recall.fetch_context(conversation.id).messages) == 5


def test_every_answer_fits_the_usual_limit_of_a_grpc_client_and_ours_joins_them(
    client: recollect.Client, server: RunningServer
) -> None:
    it = client.conversations.create("web")
    for turn in range(8):
        client.conversations.append_turn(
            it.id, [Message.user(f"{turn}"), Message.assistant("x" * 900_000)]
        )
    with grpc.insecure_channel(server.target) as channel:  # accepts 4 MiB
        recall: Any = RecallServiceStub(channel)
        answer = recall.FetchContext(FetchContextRequest(conversation_id=it.id))
        assert (answer.has_more, len(answer.messages)) == (True, 8)
        conversations: Any = ConversationServiceStub(channel)
        request = LoadRequest(conversation_id=it.id, max_tokens=10_000_000, max_turns=100)
        assert conversations.Load(request).has_more
    fetched = client.recall.fetch_context(it.id, timeout=20)
    assert [message.turn_number for message in fetched.messages] == [
        number for turn in range(1, 9) for number in (turn, turn)
    ]
    assert not fetched.has_more
    assert client.recall.fetch_context(it.id, (3, 7)).messages == fetched.messages[4:14]
    rest = client.recall.fetch_context(it.id, after_sequence=fetched.messages[3].sequence)
    assert rest.messages == fetched.messages[4:]
    # Of more than 8 MiB the caller is asked.
    for turn in range(6):
        client.conversations.append_turn(
            it.id, [Message.user(f"{turn}"), Message.assistant("x" * 900_000)]
        )
    some = client.recall.fetch_context(it.id, (1, 14))
    assert some.has_more
    rest = client.recall.fetch_context(it.id, (1, 14), after_sequence=some.messages[-1].sequence)
    assert len(some.messages) + len(rest.messages) == 28


def test_recent_conversations_are_browsed_by_time(client: recollect.Client) -> None:
    ids = []
    for year in (2021, 2022, 2023):
        conversation = client.conversations.create(
            "browse", create_time=datetime(year, 1, 1, tzinfo=UTC)
        )
        sent_at = datetime(year, 6, 1, tzinfo=UTC)
        client.conversations.append_turn(
            conversation.id, [Message.user(f"in {year}", timestamp=sent_at)]
        )
        ids.append(conversation.id)
    newest = client.recall.recent(channel="browse")
    assert [entry.conversation.id for entry in newest] == ids[::-1]
    assert newest[0].snippet == "in 2023"
    oldest = client.recall.recent(
        channel="browse",
        after=datetime(2022, 1, 1, tzinfo=UTC),
        order=recollect.RecentOrder.OLDEST_FIRST,
        limit=1,
    )
    assert [entry.conversation.id for entry in oldest] == [ids[1]]


def test_recent_says_that_more_are_there_than_fit_into_one_answer(start_server: Start) -> None:
    with recollect.Client(start_server(max_answer_bytes=1 << 20).target) as client:
        ids = []
        for number in range(24):
            began = datetime(2024, 1, 1 + number, tzinfo=UTC)
            ids.append(client.conversations.create("browse", create_time=began).id)
            client.conversations.update_metadata(ids[-1], {"pad": "x" * 60_000})
        page = client.recall.recent(channel="browse", limit=24)
        assert (0 < len(page) < 24, page.has_more) == (True, True)
        before = page[-1].conversation.update_time
        rest = client.recall.recent(channel="browse", limit=24, before=before)
        assert [it.conversation.id for it in (*page, *rest)] == ids[::-1]
        assert (rest.has_more, rest == tuple(rest)) == (False, True)


def test_a_deleted_conversation_leaves_a_receipt(client: recollect.Client) -> None:
    conversation = client.conversations.create("web")
    client.conversations.append_turn(conversation.id, TURN)
    receipt = client.conversations.delete(conversation.id, request_id="delete-1")
    assert receipt.conversation_id == conversation.id
    assert {removed.place: removed.count > 0 for removed in receipt.removed}["transcript"]
    assert receipt.delete_time.tzinfo is UTC
    with pytest.raises(recollect.NotFound):
        client.conversations.get(conversation.id)
    assert client.conversations.delete(conversation.id, request_id="delete-1") == receipt


def test_deep_metadata_comes_back(client: recollect.Client) -> None:
    metadata: dict[str, object] = {"leaf": [1, 2.5, None, True, "ü"]}
    for _ in range(22):
        metadata = {"deeper": metadata}
    conversation = client.conversations.create("web")
    client.conversations.append_turn(conversation.id, [Message.user("Hi", metadata=metadata)])
    assert client.conversations.load(conversation.id).messages[0].metadata == metadata


async def test_the_async_client_does_all_of_it_too(server: RunningServer) -> None:
    async with recollect.AsyncClient(server.target) as client:
        conversation = await client.conversations.create("async", participants=["alex"])
        stored = await client.conversations.append_turn(conversation.id, TURN)
        assert (await client.conversations.load(conversation.id)).messages == stored.messages
        assert (
            await client.conversations.switch(None, conversation.id)
        ).messages == stored.messages
        await client.conversations.rename(conversation.id, "Async")
        await client.conversations.set_model(conversation.id, "haiku")
        await client.conversations.record_abbreviation(conversation.id, "Notes.")
        await client.conversations.record_compression(conversation.id, 1, "Summary.")
        listed = [it async for it in client.conversations.list(channels=["async"], page_size=1)]
        assert listed == [await client.conversations.get(conversation.id)]
        assert (await client.conversations.list_page(channels=["async"])).conversations == tuple(
            listed
        )
        assert (await client.recall.search("disk", channel="async")).hits[
            0
        ].conversation_id == conversation.id
        assert (await client.recall.fetch_context(conversation.id)).messages == stored.messages
        assert (await client.recall.recent(channel="async"))[0].conversation == listed[0]
        await client.conversations.delete(conversation.id)
        with pytest.raises(recollect.NotFound):
            await client.conversations.get(conversation.id)


def test_a_call_outlives_a_restart_of_the_server(
    server: RunningServer, start_server: Start
) -> None:
    restarted: list[RunningServer] = []

    def restart_instead_of_waiting(seconds: float) -> None:
        if not restarted:
            restarted.append(start_server(listen=server.target))

    patient = recollect.RetryPolicy(max_attempts=1_000_000, random=lambda: 0.0)
    with recollect.Client(server.target, retry=patient, sleep=restart_instead_of_waiting) as client:
        conversation = client.conversations.create("web")
        server.stop()
        stored = client.conversations.append_turn(conversation.id, [Message.user("Are you back?")])
        assert len(restarted) == 1
        assert client.conversations.load(conversation.id).messages == stored.messages


def test_the_tour_of_the_projects_readme_runs_and_ends(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    tour = readme.partition("```python\n")[2].partition("```")[0]
    assert "with Client() as client" in tour
    tour = tour.replace("Client()", f"Client({server.target!r})")
    exec(compile(tour, "README.md", "exec"), {})  # noqa: S102
    printed = [it for it in capsys.readouterr().out.splitlines() if " [" not in it]
    assert printed[:2] == ["We ship on Friday. - We ship on Friday", "ConversationList "]
    assert printed[2].startswith("LoadedConversation conv-")


def test_the_example_of_the_readme_runs(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (Path(__file__).parents[2] / "client" / "README.md").read_text()
    example = readme.partition("```python\n")[2].partition("```")[0]
    assert "127.0.0.1:50051" in example
    exec(compile(example.replace("127.0.0.1:50051", server.target), "README.md", "exec"), {})  # noqa: S102
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("conv-")]
    assert any("Why was the server slow?" in line for line in printed)


def test_a_unix_socket_reaches_the_server(start_server: Start, tmp_path: Path) -> None:
    server = start_server(listen=f"unix:{tmp_path / 'socket'}")
    with recollect.Client(server.target) as client:
        conversation = client.conversations.create("web")
        assert client.conversations.get(conversation.id) == conversation
