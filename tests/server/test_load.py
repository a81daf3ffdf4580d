"""The working context: the newest turns within two limits, and pages of what came before."""

from recollect.v1.message_pb2 import Message, ToolCall

from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import Connect, Service, agent, failure_of, moment, tool, user


def turns_in(messages: list[Message]) -> list[int]:
    return list(dict.fromkeys(message.turn_number for message in messages))


def test_by_default_the_last_20_turns_are_loaded_oldest_first(service: Service) -> None:
    conversation_id = service.conversation_of(*(f"turn {n}" for n in range(1, 26)))
    loaded = service.load(conversation_id)
    assert [message.content for message in loaded.messages] == [f"turn {n}" for n in range(6, 26)]
    assert loaded.has_more
    assert loaded.conversation == service.get(conversation_id)
    assert loaded.compression_summary == ""


def test_by_default_8000_tokens_of_four_bytes_are_loaded(service: Service) -> None:
    conversation_id = service.conversation_of(*("x" * 4000 for _ in range(12)))
    loaded = service.load(conversation_id)
    assert turns_in(list(loaded.messages)) == list(range(5, 13))
    assert loaded.has_more


def test_the_smaller_of_the_two_limits_decides(service: Service) -> None:
    conversation_id = service.conversation_of(*("x" * 400 for _ in range(10)))
    assert len(service.load(conversation_id, max_turns=3, max_tokens=10_000).messages) == 3
    assert len(service.load(conversation_id, max_turns=9, max_tokens=400).messages) == 4
    assert len(service.load(conversation_id, max_turns=9, max_tokens=399).messages) == 3


def test_the_defaults_are_settings(start_server: Start, connect: Connect) -> None:
    service = connect(start_server(max_working_turns=2, max_working_tokens=100))
    conversation_id = service.conversation_of("one", "two", "three")
    assert [message.content for message in service.load(conversation_id).messages] == [
        "two",
        "three",
    ]
    service.append(conversation_id, user("y" * 396))
    assert len(service.load(conversation_id).messages) == 1


def test_the_newest_turn_is_whole_however_large_it_is(service: Service) -> None:
    conversation_id = service.conversation_of("before")
    call = ToolCall(id="c", name="n", arguments="z" * 9000)
    service.append(
        conversation_id,
        user("x" * 50_000),
        agent("y" * 50_000, tool_calls=[call]),
        tool("c", "w" * 50_000),
        agent("end"),
    )
    loaded = service.load(conversation_id, max_tokens=1)
    assert [message.turn_number for message in loaded.messages] == [2, 2, 2, 2]
    assert loaded.has_more


def test_a_turn_is_never_cut(service: Service) -> None:
    conversation_id = service.create().id
    for _ in range(3):
        service.append(conversation_id, user("x" * 400), agent("y" * 400), agent("z" * 400))
    for tokens in range(250, 1000, 50):
        messages = service.load(conversation_id, max_tokens=tokens).messages
        assert len(messages) % 3 == 0
        assert len(messages) == 3 * max(1, tokens // 300)


def test_tool_calls_count_and_thinking_does_not(service: Service) -> None:
    conversation_id = service.create().id
    service.append(conversation_id, user("q"), agent("a", thinking_text="t" * 40_000))
    service.append(
        conversation_id,
        user("q"),
        agent("a", tool_calls=[ToolCall(id="c", name="n", arguments="a" * 400)]),
    )
    assert turns_in(list(service.load(conversation_id, max_tokens=150).messages)) == [1, 2]
    assert turns_in(list(service.load(conversation_id, max_tokens=104).messages)) == [2]


def test_pages_of_history_show_everything_exactly_once(service: Service) -> None:
    conversation_id = service.create().id
    for number in range(37):
        service.append(
            conversation_id, user(f"q{number}"), *(agent(f"a{number}") for _ in range(number % 3))
        )
    everything = list(service.load(conversation_id, max_turns=1000, max_tokens=100_000).messages)
    messages: list[Message] = []
    page = service.load(conversation_id, max_turns=5)
    pages = 1
    while True:
        messages = [*page.messages, *messages]
        if not page.has_more:
            break
        page = service.load(conversation_id, max_turns=5, before_turn=page.messages[0].turn_number)
        pages += 1
    assert messages == everything
    assert pages == 8


def test_history_before_the_first_turn_is_empty_and_has_no_more(service: Service) -> None:
    conversation_id = service.conversation_of("one", "two")
    page = service.load(conversation_id, before_turn=1)
    assert (len(page.messages), page.has_more) == (0, False)
    assert len(service.load(conversation_id, before_turn=99).messages) == 2


def test_has_more_is_false_where_everything_was_answered(service: Service) -> None:
    conversation_id = service.conversation_of(*(f"turn {n}" for n in range(20)))
    assert not service.load(conversation_id).has_more
    assert service.load(conversation_id, max_turns=19).has_more


def test_a_summary_stands_for_the_turns_it_covers(service: Service) -> None:
    conversation_id = service.conversation_of(*(f"turn {n}" for n in range(1, 7)))
    service.compress(conversation_id, 4, "turns one to four")
    loaded = service.load(conversation_id)
    assert loaded.compression_summary == "turns one to four"
    assert loaded.conversation.compressed_through == 4
    assert turns_in(list(loaded.messages)) == [5, 6]
    assert loaded.has_more
    service.compress(conversation_id, 6, "all six")
    loaded = service.load(conversation_id)
    assert (loaded.compression_summary, len(loaded.messages), loaded.has_more) == (
        "all six",
        0,
        True,
    )


def test_history_shows_covered_turns_too_and_no_summary(service: Service) -> None:
    conversation_id = service.conversation_of(*(f"turn {n}" for n in range(1, 7)))
    service.compress(conversation_id, 4, "turns one to four")
    page = service.load(conversation_id, before_turn=5, max_turns=3)
    assert turns_in(list(page.messages)) == [2, 3, 4]
    assert (page.compression_summary, page.has_more) == ("", True)


def test_without_an_id_the_most_recent_of_the_channel_is_loaded(
    service: Service, clock: MovableClock
) -> None:
    first = service.conversation_of("first", channel="web")
    clock.move(1000)
    second = service.conversation_of("second", channel="web")
    clock.move(1000)
    service.conversation_of("other", channel="email")
    assert service.load(channel="web").conversation.id == second
    clock.move(1000)
    service.append(first, user("again"))
    assert service.load(channel="web").conversation.id == first
    service.delete(first)
    assert service.load(channel="web").conversation.id == second


def test_a_conversation_without_messages_is_the_most_recent_by_its_creation(
    service: Service, clock: MovableClock
) -> None:
    service.conversation_of("old", channel="cli")
    clock.move(1)
    new = service.create("cli").id
    loaded = service.load(channel="cli")
    assert loaded.conversation.id == new
    assert (len(loaded.messages), loaded.has_more) == (0, False)


def test_a_channel_without_conversations_answers_nothing(service: Service) -> None:
    loaded = service.load(channel="discord")
    assert not loaded.HasField("conversation")
    assert (len(loaded.messages), loaded.has_more, loaded.compression_summary) == (0, False, "")


def test_a_conversation_of_another_channel_is_refused(service: Service) -> None:
    conversation_id = service.conversation_of("hello", channel="web")
    assert service.load(conversation_id, channel="web").conversation.id == conversation_id
    failure = failure_of(lambda: service.load(conversation_id, channel="email"))
    assert (failure.code, failure.reason, failure.fields) == (
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
        ("channel",),
    )


def test_limits_beyond_the_highest_count_as_the_highest(service: Service) -> None:
    conversation_id = service.create().id
    service.append(conversation_id, *(user("x") for _ in range(600)))
    service.append(conversation_id, *(user("x") for _ in range(600)))
    loaded = service.load(conversation_id, max_turns=2_000_000_000, max_tokens=2_000_000_000)
    assert len(turns_in(list(loaded.messages))) == 1000


def test_an_imported_order_is_kept_whatever_the_times_say(service: Service) -> None:
    conversation_id = service.create().id
    times = [1_600_000_003_000, 1_600_000_001_000, 1_600_000_002_000]
    service.append(
        conversation_id, *(user(str(n), timestamp=moment(time)) for n, time in enumerate(times))
    )
    assert [message.content for message in service.load(conversation_id).messages] == [
        "0",
        "1",
        "2",
    ]


def test_a_damaged_line_in_the_loaded_range_is_left_out_and_counted(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.conversation_of("one", "two", "three")
    path = server.folder / f"{conversation_id}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"two"', b'"twp"'))
    loaded = service.load(conversation_id)
    assert [message.content for message in loaded.messages] == ["one", "three"]
    assert loaded.damaged_lines == 1
