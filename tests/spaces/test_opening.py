"""Spaces are opened on demand and closed when others need their place."""

from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub
from recollect.v1 import conversation_service_pb2 as api
from recollect_server.contract.health import DEGRADED
from recollect_server.kernel.domain.errors import IndexUnavailable, TooManySpaces
from recollect_server.kernel.space.spaces import EMPTY, Spaces
from recollect_server.recall.vectors import checking as vectors

from tests.at_rest import is_sealed
from tests.cases import each
from tests.conftest import MovableClock, RunningServer, Start
from tests.programs import SERVER, Forked
from tests.server.conftest import at_once, code_of, failure_of, user
from tests.spaces.conftest import Enter
from tests.waiting import until


def folders(server: RunningServer) -> set[str]:
    return {path.name for path in server.data_dir.iterdir() if path.is_dir()} - {".due", ".empty"}


def evict(server: RunningServer, space: str) -> None:
    """Close a space as soon as no call and no job uses it."""

    def is_closed() -> bool:
        server.app.spaces.evict(space)
        return space not in server.app.spaces.names()

    until(is_closed)


def test_a_space_that_nobody_wrote_to_reads_as_empty_and_leaves_no_folder(
    server: RunningServer, enter: Enter
) -> None:
    stranger = enter(server.target, "nobody")
    assert not stranger.listed().conversations
    assert not stranger.search("anything").results
    assert code_of(lambda: stranger.get("conv-01ARZ3NDEKTSV4RRFFQ69G5FAV")) == "NOT_FOUND"
    assert folders(server) == {"default"}
    failed = code_of(lambda: stranger.append("conv-01ARZ3NDEKTSV4RRFFQ69G5FAV", user("Hi")))
    assert failed == "NOT_FOUND"
    server.stop()
    assert folders(server) == {"default"}
    assert not (server.data_dir / ".empty").exists()


def test_a_space_keeps_what_was_written_when_others_take_its_place(
    start_server: Start, enter: Enter
) -> None:
    server = start_server(max_open_spaces=2)
    services = [enter(server.target, f"space-{number}") for number in range(5)]
    names = [service.conversation_of(f"Words of {service.space}") for service in services]
    assert len(server.app.spaces.names()) <= 2
    for service, name in zip(services, names, strict=True):
        assert [it.id for it in service.listed().conversations] == [name]
        assert service.found("words") == [name]
    closed = folders(server) - {"default", *server.app.spaces.names()}
    assert len(closed) == 3
    for space in closed:  # a closed space's index can be trusted without being compared
        assert is_sealed(server.data_dir / space / "conversations")


def test_a_space_whose_conversations_are_all_deleted_keeps_its_cursors_and_page_tokens(
    server: RunningServer, enter: Enter
) -> None:
    service = enter(server.target, "emptied")
    names = [service.conversation_of(f"Words {number}") for number in range(2)]
    token = service.listed(page_size=1).next_page_token
    cursor = service.append(names[0], user("The last words")).cursor
    for name in names:
        service.delete(name)
    evict(server, "emptied")
    assert not service.listed(page_size=1, page_token=token).conversations
    evict(server, "emptied")
    stream = service.conversations.StreamUpdates(api.StreamUpdatesRequest(cursor=cursor))
    assert next(iter(stream)).update.WhichOneof("kind") == "conversation_deleted"
    stream.cancel()


def test_background_work_takes_no_place_of_a_space_that_was_just_used(
    start_server: Start, enter: Enter
) -> None:
    server = start_server(max_open_spaces=1)
    enter(server.target, "behind").conversation_of("Words")
    enter(server.target, "used").conversation_of("Words")

    def use_behind() -> None:
        if lease := server.app.spaces.use_behind("behind"):
            lease.end()

    with pytest.raises(TooManySpaces):
        use_behind()
    assert server.app.spaces.names() == ["used"]


def test_a_call_gets_the_place_that_it_made_free(
    start_server: Start, enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(max_open_spaces=1)
    enter(server.target, "left").conversation_of("Words")
    spaces = server.app.spaces
    close = spaces._close
    refused: list[TooManySpaces] = []

    def close_and_want(place: Any, space: Any) -> None:
        close(place, space)
        try:  # work is due in it as soon as it is left
            spaces.use_behind("left")
        except TooManySpaces as error:
            refused.append(error)

    monkeypatch.setattr(spaces, "_close", close_and_want)
    with spaces.use("default") as opened:
        assert spaces.open_now() == [opened]
    assert len(refused) == 1


def test_a_call_is_refused_while_all_open_spaces_are_held_by_background_work(
    start_server: Start, enter: Enter
) -> None:
    server = start_server(max_open_spaces=1)
    one, other = enter(server.target, "one"), enter(server.target, "other")
    one.conversation_of("First")
    held = server.app.spaces.use_behind("one")
    assert held is not None
    failure = failure_of(lambda: other.conversation_of("No place for this"))
    assert (failure.code, failure.reason) == ("RESOURCE_EXHAUSTED", "TOO_MANY_SPACES")
    assert failure.retry_ms is not None
    held.end()
    other.conversation_of("Now there is")


def test_appends_to_more_spaces_than_are_open_lose_nothing(
    start_server: Start, enter: Enter
) -> None:
    server = start_server(max_open_spaces=2)
    services = [enter(server.target, f"space-{number}") for number in range(6)]
    names = [service.create().id for service in services]

    def append(number: int) -> None:
        for turn in range(4):
            for at in range(6):
                of = (at + number) % 6
                services[of].append(names[of], user(f"{number} {turn}"))

    at_once(3, append)
    for service, name in zip(services, names, strict=True):
        texts = sorted(it.content for it in service.load(name, max_turns=100).messages)
        assert texts == sorted(f"{number} {turn}" for number in range(3) for turn in range(4))


@each("name", ["", "Upper", "a/b", "..", ".due", "-x", "a" * 65])
def test_a_name_that_is_none_is_refused_by_the_metadata_that_has_it(
    server: RunningServer, name: str
) -> None:
    with grpc.insecure_channel(server.target) as channel:
        call: Any = channel.unary_unary("/recollect.v1.ConversationService/List")
        failure = failure_of(lambda: call(b"", metadata=(("recollect-space", name),)))
    assert (failure.code, failure.reason) == ("INVALID_ARGUMENT", "INVALID_FIELD")
    assert failure.fields == ("recollect-space",)
    assert folders(server) == {"default"}


def test_two_names_are_refused(server: RunningServer) -> None:
    with grpc.insecure_channel(server.target) as channel:
        call: Any = channel.unary_unary("/recollect.v1.ConversationService/List")
        named = (("recollect-space", "one"), ("recollect-space", "two"))
        failure = failure_of(lambda: call(b"", metadata=named))
    assert failure.fields == ("recollect-space",)


def test_a_space_that_cannot_be_opened_is_named_and_the_others_are_served(
    start_server: Start, enter: Enter
) -> None:
    server = start_server(max_open_spaces=2)
    bad, good = enter(server.target, "bad"), enter(server.target, "good")
    (server.data_dir / "bad").write_text("a file where the folder should be")
    for call in (bad.listed, bad.create):
        failure = failure_of(call)
        assert (failure.code, failure.reason) == ("UNAVAILABLE", "STORAGE_UNAVAILABLE")
        assert "the space bad cannot be opened" in failure.text
    assert good.found("anything") == []
    name = good.conversation_of("Served")
    (server.data_dir / "bad").unlink()
    assert bad.listed().conversations == []
    assert [it.id for it in good.listed().conversations] == [name]


def test_health_is_as_before_while_the_default_space_is_closed(server: RunningServer) -> None:
    server.app.spaces.evict("default")
    with grpc.insecure_channel(server.target) as channel:
        stub: Any = HealthStub(channel)
        answer, call = stub.Check.with_call(health_pb2.HealthCheckRequest())
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert DEGRADED not in dict(call.trailing_metadata())
    assert server.app.spaces.names() == []


def test_a_damaged_index_of_a_space_is_made_anew_when_it_opens(
    start_server: Start, enter: Enter
) -> None:
    server = start_server(max_open_spaces=1)
    one = enter(server.target, "one")
    name = one.conversation_of("Findable")
    enter(server.target, "other").conversation_of("Takes its place")
    index = server.data_dir / "one" / "conversations" / "conversations.db"
    index.write_bytes(b"no database" + index.read_bytes()[11:])
    assert one.found("findable") == [name]


def test_a_line_that_a_job_logs_names_its_space(tmp_path: Path, enter: Enter) -> None:
    data, log = tmp_path / "data", tmp_path / "log"
    arguments = ["serve", "--listen", "127.0.0.1:0", "--data-dir", str(data), "--embedder", "off"]
    with log.open("wb") as file, Forked(SERVER, arguments, stderr=file.fileno()) as process:
        assert process.stdout is not None
        enter(process.stdout.readline().split()[3], "alex").conversation_of("The roof leaks")
        (data / "alex" / "conversations" / "conversations.db").unlink()
        until(lambda: "event=index_made_anew" in log.read_text())
        process.kill()
    lines = [it for it in log.read_text().splitlines() if "event=index_" in it]
    assert len(lines) >= 2
    assert all("space=alex" in line for line in lines)


def test_an_idle_server_releases_its_model_and_finds_by_meaning_after_it(
    tmp_path: Path, enter: Enter
) -> None:
    log = tmp_path / "log"
    arguments = ["serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")]
    arguments += ["--embedder", "onnx", "--embedding-idle", "1s"]
    with log.open("wb") as file, Forked(SERVER, arguments, stderr=file.fileno()) as process:
        assert process.stdout is not None
        service = enter(process.stdout.readline().split()[3], "default")
        name = service.conversation_of("We fly to Kyoto in April.")
        until(lambda: service.found("a journey to Japan") == [name])
        until(lambda: "event=model_released" in log.read_text())
        answer = service.search("which trip to Asia is planned?")
        process.kill()
    assert [it.conversation_id for it in answer.results] == [name]
    assert not answer.degraded


@pytest.fixture
def noted(start_server: Start, enter: Enter) -> tuple[RunningServer, str]:
    """Start a server whose only open space is another than the one that waits for notes; return the
    id of the conversation that waits too.
    """
    server = start_server(
        max_open_spaces=1, abbreviator="extractive", idle_timeout="1h", sweep_interval="1h"
    )
    waits = enter(server.target, "waits")
    name = waits.create().id
    for number in range(3):
        waits.turn(name, f"The roof leaks at place {number}.", "Call the roofer tomorrow.")
    enter(server.target, "other").conversation_of("Takes its place")
    assert server.app.spaces.names() == ["other"]
    return server, name


def test_notes_of_a_closed_space_are_taken_when_their_time_comes(
    noted: tuple[RunningServer, str], clock: MovableClock, enter: Enter
) -> None:
    server, name = noted
    path = server.data_dir / "waits" / "conversations" / f"{name}.jsonl"
    before = path.read_bytes()
    clock.move(3_600_001)
    until(lambda: path.read_bytes() != before and b"abbreviat" in path.read_bytes())
    assert enter(server.target, "waits").get(name).abbreviation


def test_notes_of_a_closed_space_are_taken_after_a_restart(
    noted: tuple[RunningServer, str], clock: MovableClock, start_server: Start
) -> None:
    server, name = noted
    server.stop()
    marker = server.data_dir / ".due" / "waits"
    assert marker.stat().st_mtime_ns == (clock.now + 3_600_000) * 1_000_000
    clock.move(3_600_001)
    path = server.data_dir / "waits" / "conversations" / f"{name}.jsonl"
    assert b"abbreviat" not in path.read_bytes()
    start_server(abbreviator="extractive", idle_timeout="1h", sweep_interval="1h")
    until(lambda: b"abbreviat" in path.read_bytes())


def test_words_of_a_closed_space_are_embedded_and_it_rests_again(
    start_server: Start, enter: Enter
) -> None:
    server = start_server(embedder="onnx")
    service, spaces = enter(server.target, "waits"), server.app.spaces
    folder = server.data_dir / "waits" / "conversations"
    messages: list[str] = []

    def is_closed_before_it_is_read() -> bool:
        messages.append(service.conversation_of("The roof leaks"))
        spaces.evict("waits")  # not while the embedder uses it
        return "waits" not in spaces.names() and vectors.state_of(folder).vectors < len(messages)

    until(is_closed_before_it_is_read)
    until(lambda: vectors.state_of(folder).vectors == len(messages))
    # in memory, and at rest: it is neither while it is being put to rest
    until(
        lambda: "waits" in spaces.names() and "waits" not in {it.name for it in spaces.open_now()}
    )
    assert vectors.state_of(folder).vectors == len(messages)


@pytest.mark.parametrize("in_call", [True, False])
def test_a_space_that_is_deleted_while_a_reader_waits_for_a_place_is_not_made_again(
    in_call: bool,
) -> None:
    existing, opened = {"deleted", "other"}, list[str]()

    class Space:
        is_resting = is_delivering = has_streams = False

        def __init__(self, name: str) -> None:
            self.name = name
            opened.append(name)

        def held(self) -> tuple[int, int]:
            return 0, 0

        def close(self, **_: bool) -> None:
            if self.name == "other":
                spaces.remove("deleted", 1, lambda: existing.discard("deleted"))

    spaces: Spaces[Any] = Spaces(Space, existing.__contains__, 1, 1)
    with spaces.use("other"):
        pass
    if in_call:
        with spaces.use("deleted", reads=True) as space:
            assert space.name == EMPTY
    else:
        spaces._places["other"].used -= 60
        assert spaces.use_behind("deleted") is None
    assert "deleted" not in opened


@pytest.mark.parametrize("in_call", [True, False])
def test_a_space_at_rest_that_is_deleted_while_it_cannot_be_woken_is_not_made_again(
    in_call: bool,
) -> None:
    existing, opened = {"deleted"}, list[str]()

    class Sleeping:
        is_delivering = has_streams = False

        def __init__(self, name: str) -> None:
            self.name = name
            self.is_resting = name == "deleted"
            opened.append(name)

        def wake(self) -> None:
            raise IndexUnavailable("its disk is away")

        def held(self) -> tuple[int, int]:
            return 0, 0

        def close(self, **_: bool) -> None:
            existing.discard(self.name)

    spaces: Spaces[Any] = Spaces(Sleeping, existing.__contains__, 2, 2)
    if in_call:
        with spaces.use("deleted", reads=True) as space:
            assert space.name == EMPTY
    else:
        assert spaces.use_behind("deleted") is None
    assert opened.count("deleted") == 1
