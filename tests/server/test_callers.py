"""Many callers at once, callers that vanish, callers that ask again, and a clock that goes back."""

import threading
from pathlib import Path

import grpc
import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.conftest import LOOPBACK, MovableClock, RunningServer, Start
from tests.crash.checker import check, check_index, note, send
from tests.crash.history import Call, History
from tests.server.conftest import (
    UNKNOWN,
    Connect,
    Service,
    agent,
    at_once,
    code_of,
    delete_index,
    failure_of,
    files_with,
    transcript,
    user,
)

CALLERS = 32
HOUR = 3_600_000


@pytest.fixture
def history() -> History:
    return History()


def recorded(history: History, service: Service, call: Call) -> bool:
    return history.run(call, lambda: send(service, call), note, grpc.RpcError)


@pytest.mark.parametrize("conversations", [1, 40])
def test_32_callers_are_each_stored_once_in_their_order_and_whole(
    conversations: int, service: Service, server: RunningServer, history: History
) -> None:
    creates = [Call("create", f"c{number}") for number in range(conversations)]
    assert all(recorded(history, service, call) for call in creates)

    def talk(caller: int) -> None:
        for number in range(12):
            target = creates[(caller * 7 + number * 31) % conversations].conversation_id
            name = f"c{caller}n{number}"
            call = Call(
                "append",
                name,
                target,
                tuple(f"{name}m{place} zebra" for place in range(1 + number % 3)),
            )
            assert recorded(history, service, call)

    at_once(CALLERS, talk)
    verdict = check(history, service, server.folder)
    server.stop()
    assert verdict.problems == []
    assert verdict.acknowledged == CALLERS * 24
    assert check_index(server.folder, server.data_dir / "anew") == []


def test_an_append_that_races_a_delete_is_answered_before_it_or_finds_nothing_and_nothing_is_left(
    service: Service, server: RunningServer, history: History
) -> None:
    for turn in range(5):
        create = Call("create", f"create{turn}")
        assert recorded(history, service, create)
        target = create.conversation_id
        first_answers = threading.Barrier(CALLERS, timeout=30)
        own: list[list[Call]] = [[] for _ in range(CALLERS)]

        def race(
            caller: int,
            turn: int = turn,
            target: str = target,
            met: threading.Barrier = first_answers,
            own: list[list[Call]] = own,
        ) -> None:
            if caller == 0:
                met.wait()
                own[0].append(Call("delete", f"t{turn}delete", target))
                assert recorded(history, service, own[0][0])
                return
            for number in range(1000):
                name = f"t{turn}c{caller}n{number}"
                own[caller].append(Call("append", name, target, (f"{name}m0 quixotriple",)))
                if not recorded(history, service, own[caller][-1]):
                    return
                if number == 0:
                    met.wait()

        at_once(CALLERS, race)
        deleted = own[0][0]
        for appends in own[1:]:
            assert [call.refused for call in appends] == [""] * (len(appends) - 1) + ["NOT_FOUND"]
            # What was asked after the delete was answered was not stored.
            assert all(call.began < deleted.ended for call in appends if call.answered)
        assert [path.name for path in server.folder.glob(f"{target}*")] == []
    assert files_with(server.data_dir, "quixotriple") == []
    assert service.found("quixotriple") == []
    assert check(history, service, server.folder).problems == []


def test_a_clock_that_goes_back_an_hour_changes_no_order_and_loses_nothing(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    older, newer = service.conversation_of("zebra one"), service.create().id
    began = clock.now
    clock.move(-HOUR)
    answers = [
        service.turn(conversation_id, f"zebra {number}")
        for number in range(3)
        for conversation_id in (newer, older)
    ]
    positions = [int(answer.cursor.rsplit("-", 1)[1]) for answer in answers]
    assert positions == sorted(set(positions))
    late = service.conversation_of("zebra of the hour before")
    server.stop()
    clock.move(-HOUR)
    again = connect(start_server())
    for conversation_id, turns in ((older, 4), (newer, 3), (late, 1)):
        loaded = again.load(conversation_id)
        assert [message.sequence for message in loaded.messages] == list(
            range(2, 2 + len(loaded.messages))
        )
        assert [
            message.turn_number for message in loaded.messages if message.content != "Noted."
        ] == list(range(1, turns + 1))
    # An update time is when the newest message arrived, by the clock that came back too.
    assert again.get(older).update_time.ToMilliseconds() == began - HOUR
    assert again.get(late).update_time.ToMilliseconds() == began - HOUR
    assert {conversation.id for page in again.pages(page_size=1) for conversation in page} == {
        older,
        newer,
        late,
    }
    assert set(again.found("zebra")) == {older, newer, late}


def test_a_caller_that_vanishes_in_the_middle_of_a_call_is_stored_once_or_not_at_all_and_once_when_it_asks_again(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.create().id
    requests = [
        api.AppendTurnRequest(
            conversation_id=conversation_id,
            messages=[user(f"said {number}"), agent(f"answered {number}")],
            request_id=f"r{number}",
        )
        for number in range(60)
    ]
    vanishing = Service(server.target)
    grpc.channel_ready_future(vanishing.channel).result(10)
    for number, request in enumerate(requests):
        call = vanishing.conversations.AppendTurn.future(request)
        if number % 2:
            call.cancel()
    vanishing.channel.close()  # under the calls that were not over
    expected = [
        message.content
        for message in service.load(conversation_id, max_turns=1000, max_tokens=1_000_000).messages
    ]
    assert len(expected) == len(set(expected))
    for request in requests:
        assert service.conversations.AppendTurn(request).turn_number > 0
    messages = service.load(conversation_id, max_turns=1000, max_tokens=1_000_000).messages
    texts = [message.content for message in messages]
    assert sorted(texts) == sorted(
        text for number in range(60) for text in (f"said {number}", f"answered {number}")
    )
    assert [f"answered {text.split()[1]}" for text in texts[::2]] == texts[1::2]
    assert transcript(server, conversation_id).read_bytes().count(b"\n") == 121


@pytest.mark.parametrize("index_lost", [False, True])
def test_32_callers_that_ask_again_after_a_restart_get_the_one_first_answer(
    service: Service, server: RunningServer, start_server: Start, connect: Connect, index_lost: bool
) -> None:
    conversation_id = service.create(request_id="r0").id
    first = service.append(conversation_id, user("once"), agent("and for all"), request_id="r1")
    service.append(conversation_id, user("later"))
    server.stop()
    before = transcript(server, conversation_id).read_bytes()
    if index_lost:
        delete_index(server)
    again = connect(start_server())
    answers = at_once(
        CALLERS,
        lambda _: again.append(
            conversation_id, user("once"), agent("and for all"), request_id="r1"
        ),
    )
    assert {answer.duplicate for answer in answers} == {True}
    assert {answer.SerializeToString(deterministic=True) for answer in answers} == {
        answers[0].SerializeToString(deterministic=True)
    }
    assert list(answers[0].messages) == list(first.messages)
    assert set(at_once(CALLERS, lambda _: again.create(request_id="r0").id)) == {conversation_id}
    assert (
        code_of(lambda: again.append(conversation_id, user("another"), request_id="r1"))
        == "ALREADY_EXISTS"
    )
    assert transcript(server, conversation_id).read_bytes() == before


def test_a_machine_whose_clock_is_before_1970_keeps_conversations(
    tmp_path: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: -(10**18))  # 1938
    settings = Settings.load(None, {"listen": f"{LOOPBACK}:0", "data_dir": tmp_path})
    running = app.start(settings)
    service = Service(running.address)
    try:
        name = service.conversation_of("zebra")
        assert (
            service.conversations.Fork(api.ForkRequest(conversation_id=name)).conversation.id
            != name
        )
        assert [it.content for it in service.load(name).messages] == ["zebra"]
        assert name in service.found("zebra")
        assert failure_of(lambda: service.get(UNKNOWN)).code == "NOT_FOUND"
    finally:
        service.channel.close()
        running.stop()
