"""Several servers over one database: what one redacts is in no index of another one, however late
that learns of it.
"""

from pathlib import Path
from typing import Any

import grpc
import pytest
from recollect import Client
from recollect.v1 import conversation_service_pb2 as conversation_api
from recollect_server.kernel.compare import recovery
from recollect_server.kernel.domain.conversation import ConversationUnindexed
from recollect_server.kernel.domain.errors import IndexUnavailable
from recollect_server.kernel.erase.erasing import finish_interrupted
from recollect_server.kernel.erase.redaction import take_out_part
from recollect_server.kernel.space.conversation_logs import Committed
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.writes import Writes

from tests.administration.test_verification import verified
from tests.channels.conftest import Post
from tests.conftest import Start
from tests.database.conftest import Replicas, index_files, said
from tests.external.conftest import Meet, Watch
from tests.postgres import Postgres
from tests.server.conftest import files_with, server_process, user
from tests.server.test_redact import redact
from tests.waiting import until


def late_space(replicas: Replicas) -> Space:
    """Return the space of the second server. Whoever has the lock of a conversation in it keeps it
    from following what the first server writes there.
    """
    space: Space = replicas.servers[1].app.spaces.open_now()[0]._space
    return space


def end_without_the_second(postgres: Postgres, replicas: Replicas) -> None:
    """End the redactions as the first server does where it did not hear of the second one for half
    a minute.
    """
    ended = "DELETE FROM recollect.traces; DELETE FROM recollect.redacted_lines"
    postgres.execute(ended, replicas.url)


def check_words_are_gone(replicas: Replicas, *words: str) -> None:
    for service, server in zip((replicas.one, replicas.two), replicas.servers, strict=True):
        for word in words:
            until(lambda service=service, word=word: service.found(word) == [])  # type: ignore[misc]
        until(lambda server=server: files_with(server.data_dir, *words) == [])  # type: ignore[misc]
        with Client(server.target) as client:
            until(lambda client=client: verified(client).problems == ())  # type: ignore[misc]


def test_a_redaction_that_a_read_meets_behind_lines_that_its_index_lacks_costs_no_new_index(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    name = one.conversation_of("secretword", "butter")
    assert two.found("secretword") == [name]
    made = index_files(replicas)
    space = late_space(replicas)
    length = space.store.length

    def be_overtaken(log: str) -> int:
        monkeypatch.undo()
        one.append(name, user("lemon hiddenword"))
        redact(one, name, sequence=2)
        return length(log)

    space._parts.states.forget(name)
    monkeypatch.setattr(space.store, "length", be_overtaken)
    assert two.get(name).message_count == 3
    check_words_are_gone(replicas, "secretword")
    assert two.found("hiddenword") == two.found("butter") == [name]
    redact(one, name, sequence=4)
    check_words_are_gone(replicas, "secretword", "hiddenword")
    assert said(two, name) == said(one, name)
    space.upkeep.repair(lambda: False)  # as its job does every second
    assert index_files(replicas) == made, "an index was made anew"


@pytest.mark.parametrize("is_appended", [False, True])
def test_a_server_that_comes_back_for_a_second_redaction_keeps_no_word_of_the_first(
    replicas: Replicas, postgres: Postgres, *, is_appended: bool
) -> None:
    one, two = replicas.one, replicas.two
    name = one.conversation_of("secretword", "hiddenword", "butter")
    assert two.found("secretword") == two.found("hiddenword") == [name]
    with late_space(replicas).exclusive(conversation=name):
        redact(one, name, sequence=2)
        end_without_the_second(postgres, replicas)
        if is_appended:
            one.append(name, user("lemon"))
        redact(one, name, sequence=3)
    check_words_are_gone(replicas, "secretword", "hiddenword")
    assert two.found("butter") == [name]
    assert said(two, name) == said(one, name)


@pytest.mark.parametrize("is_redacted_again", [False, True])
def test_a_server_that_comes_back_for_the_delete_keeps_no_word_that_was_redacted_before(
    replicas: Replicas, postgres: Postgres, *, is_redacted_again: bool
) -> None:
    one, two = replicas.one, replicas.two
    name, other = (
        one.conversation_of("secretword", "hiddenword", "butter"),
        one.conversation_of("zebra"),
    )
    assert two.found("secretword") == two.found("hiddenword") == [name]
    with late_space(replicas).exclusive(conversation=name):
        redact(one, name, sequence=2)
        end_without_the_second(postgres, replicas)
        if is_redacted_again:
            redact(one, name, sequence=3)
        one.delete(name)
    check_words_are_gone(replicas, "secretword", "hiddenword", "butter")
    until(lambda: two.found("zebra") == [other])  # whose index may be made anew


def test_words_that_go_before_an_ended_redaction_is_followed_leave_none_behind(
    replicas: Replicas, postgres: Postgres
) -> None:
    one, two = replicas.one, replicas.two
    name, other = one.conversation_of("secretword", "butter"), one.conversation_of("zebra")
    assert two.found("secretword") == [name]
    space = late_space(replicas)
    unindexed = ConversationUnindexed(replicas.servers[0].clock.now)
    with space.exclusive(conversation=name):
        late_space(Replicas("", replicas.servers[::-1], two, one)).record(
            name, lambda _: [unindexed]
        )
        redact(one, name, sequence=2)
        end_without_the_second(postgres, replicas)
        stored = space.index.conversations.find(name)
        assert stored is not None
        with pytest.raises(IndexUnavailable, match="redacted by another server"):
            take_out_part(space.store, space.index, name, stored)
    check_words_are_gone(replicas, "secretword")
    assert two.found("butter") == []
    assert two.found("zebra") == [other]


def test_a_killed_server_that_starts_again_follows_a_redaction_behind_lines_that_it_lacks(
    postgres: Postgres, start_server: Start, tmp_path: Path
) -> None:
    url = postgres.new_database()
    with Post(start_server(store=url, data_dir=tmp_path / "one").target) as one:
        name = one.conversation_of("secretword", "butter")
        folder = tmp_path / "two"
        with server_process(folder, "--store", url) as (process, target), Post(target) as two:
            assert two.found("secretword") == [name]
            process.kill()
            process.wait()
        (made,) = [path.stat().st_ino for path in folder.rglob("conversations.db")]
        one.append(name, user("lemon hiddenword"))
        redact(one, name, sequence=2)
        assert postgres.execute("SELECT FROM recollect.redacted_lines LIMIT 1", url)
        server = start_server(store=url, data_dir=folder)
        with Post(server.target) as two, Client(server.target) as client:
            assert two.found("secretword") == []
            assert two.found("hiddenword") == two.found("butter") == [name]
            assert said(two, name) == said(one, name)
            assert verified(client).problems == ()
        until(lambda: files_with(folder, "secretword") == [])
        (now,) = [path.stat().st_ino for path in folder.rglob("conversations.db")]
        assert now == made, "the index was made anew"


@pytest.mark.parametrize("meanwhile", ["delete", "append"])
def test_a_server_joins_while_others_change_what_is_being_redacted(
    replicas: Replicas,
    postgres: Postgres,
    start_server: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: str,
) -> None:
    one, two = replicas.one, replicas.two
    name, other = one.conversation_of("secretword", "hiddenword"), one.conversation_of("zebra")
    assert two.found("secretword") == [name]

    def be_overtaken(*arguments: Any, is_rebuilt: bool) -> None:
        monkeypatch.undo()
        if meanwhile == "delete":
            one.delete(name)
        else:
            end_without_the_second(postgres, replicas)
            one.append(name, user("lemon"))
            redact(one, name, sequence=3)
        finish_interrupted(*arguments, is_rebuilt=is_rebuilt)

    with late_space(replicas).exclusive(conversation=name):
        redact(one, name, sequence=2)
        monkeypatch.setattr(recovery, "finish_interrupted", be_overtaken)
        server = start_server(store=replicas.url, data_dir=tmp_path / "three")
    with Post(server.target) as three, Client(server.target) as client:
        assert three.found("secretword") == []
        assert three.found("zebra") == [other]
        if meanwhile == "append":
            assert three.found("hiddenword") == []
            assert three.found("lemon") == [name]
            assert said(three, name) == said(one, name)
        until(lambda: verified(client).problems == ())
        until(lambda: files_with(server.data_dir, "secretword", "hiddenword") == [])


def test_a_fork_that_another_server_makes_of_a_text_has_it_no_more_or_is_named(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    origin = one.conversation_of("secretword", "butter")
    assert two.found("secretword") == [origin]
    begin = Writes.begin
    copied_in: list[str] = []

    def be_overtaken(writes: Writes, *arguments: Any) -> Committed:
        monkeypatch.undo()
        copied_in.extend(redact(one, origin, sequence=2).copied_in)
        return begin(writes, *arguments)

    monkeypatch.setattr(Writes, "begin", be_overtaken)
    request = conversation_api.ForkRequest(conversation_id=origin, request_id="fork")
    copy = two.conversations.Fork(request).conversation.id
    assert one.found("secretword") == two.found("secretword") == copied_in
    assert [text for text, _, _ in said(one, copy)][1:] == ["butter"]
    assert two.conversations.Fork(request).conversation.id == copy


def test_a_third_partys_message_is_redacted_on_every_server_and_in_the_database(
    replicas: Replicas, postgres: Postgres, meet: Meet, watch: Watch
) -> None:
    one, two = (meet(it) for it in replicas.servers)
    first = one.write("secretword and more", delivered="w-1")
    name = first.communication.id
    assert two.texts(name) == ["secretword and more"]
    panels = [watch(server=it).ready() for it in replicas.servers]
    made = index_files(replicas)
    done = one.redact(name, first.message.sequence, request_id="r")
    again = two.redact(name, first.message.sequence, request_id="r")
    assert again.duplicate
    again.duplicate = False
    assert again == done
    for outside, panel in zip((one, two), panels, strict=True):
        assert outside.messages(name) == [done.message]
        assert list(outside.escalations()) == [done.escalation]
        update = panel.until_count(2).updates[-1].external_message_redacted
        assert (update.message, update.escalation) == (done.message, done.escalation)
        repeat = outside.write("secretword and more", delivered="w-1")
        assert (repeat.duplicate, repeat.message) == (True, done.message)
    two.write("lemon")
    assert one.texts(name) == ["[redacted]", "lemon"]
    for server in replicas.servers:
        until(lambda server=server: files_with(server.data_dir, "secretword") == [])  # type: ignore[misc]
        with Client(server.target) as client:
            until(lambda client=client: verified(client).problems == ())  # type: ignore[misc]
    old = "SELECT 1 FROM recollect.redacted_lines"
    until(lambda: postgres.execute(old, replicas.url) == [])
    left = "SELECT body FROM recollect.lines WHERE position('secretword' IN convert_from(body, 'UTF8')) > 0"
    assert postgres.execute(left, replicas.url) == []
    assert index_files(replicas) == made, "an index was made anew"


@pytest.mark.parametrize("then", ["append", "delete", "prune"])
def test_a_server_that_learns_late_of_the_redaction_of_a_third_partys_message_keeps_no_word(
    replicas: Replicas, postgres: Postgres, meet: Meet, then: str
) -> None:
    one, two = (meet(it) for it in replicas.servers)
    first = one.write("secretword and more")
    name = first.communication.id
    assert two.texts(name) == ["secretword and more"]
    with late_space(replicas).exclusive(conversation=name):
        one.write("hiddenword")
        one.redact(name, first.message.sequence)
        if then == "delete":
            one.delete(name)
        else:
            one.write("lemon")
        if then == "prune":  # the lengths of all logs say then what is new
            postgres.execute("SELECT recollect.prune_changes('default', 0, 0)", replicas.url)
    if then != "delete":
        assert two.texts(name) == one.texts(name) == ["[redacted]", "hiddenword", "lemon"]
    else:
        assert two.listed() == one.listed() == []
    for server in replicas.servers:
        until(lambda server=server: files_with(server.data_dir, "secretword") == [])  # type: ignore[misc]
        with Client(server.target) as client:
            until(lambda client=client: verified(client).problems == ())  # type: ignore[misc]


def test_a_server_that_was_away_while_a_third_partys_message_was_redacted_keeps_no_word(
    replicas: Replicas, postgres: Postgres, meet: Meet
) -> None:
    one, two = (meet(it) for it in replicas.servers)
    first = one.write("secretword and more")
    name = first.communication.id
    assert two.texts(name) == ["secretword and more"]
    with late_space(replicas).exclusive(conversation=name):
        one.redact(name, first.message.sequence)
        end_without_the_second(postgres, replicas)

    def texts() -> list[str]:
        try:
            return two.texts(name)
        except grpc.RpcError:
            return []  # its index is made anew

    until(lambda: texts() == ["[redacted]"])
    until(lambda: files_with(replicas.servers[1].data_dir, "secretword") == [])
