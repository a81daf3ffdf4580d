"""Several servers over one database: what one deletes or redacts is gone on all of them."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import pytest
from recollect import Client, Message
from recollect.v1 import conversation_service_pb2 as api
from recollect_server.kernel.compare import comparison
from recollect_server.kernel.domain.conversation import AnchorSet, ConversationUnindexed
from recollect_server.kernel.domain.errors import IndexUnavailable
from recollect_server.kernel.domain.filters import Filter
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.erase.bulk_removal import Removals
from recollect_server.kernel.erase.deletion import DELETE_ANCHORS
from recollect_server.kernel.erase.redaction import bring_back_part, take_out_part
from recollect_server.kernel.log.lines import Line
from recollect_server.kernel.log.store import LogStore, LogUnavailable, Version
from recollect_server.people import received
from recollect_server.postgres.store import PostgresStore
from recollect_server.retention.service import Retention
from recollect_server.run.jobs import of_space
from ulid import ULID

from tests.administration.test_verification import verified
from tests.channels.conftest import ALEX, Post, here
from tests.conftest import Start
from tests.context.conftest import built
from tests.database.conftest import Replicas, index_files, said
from tests.external.conftest import Meet, Watch
from tests.postgres import Postgres
from tests.server.conftest import at_once, code_of, failure_of, files_with, moment, user
from tests.server.test_redact import redact
from tests.waiting import until


def test_a_delete_leaves_no_word_on_any_server_or_in_the_database(
    replicas: Replicas, postgres: Postgres
) -> None:
    one, two = replicas.one, replicas.two
    other, name = one.conversation_of("apricot"), one.conversation_of("secretword and more")
    assert two.found("secretword") == [name]
    made = index_files(replicas)
    one.delete(name)
    assert two.found("secretword") == []
    assert code_of(lambda: two.get(name)) == "NOT_FOUND"
    assert code_of(lambda: two.append(name, user("late"))) == "NOT_FOUND"
    until(
        lambda: (
            postgres.execute("SELECT DISTINCT log FROM recollect.lines", replicas.url) == [(other,)]
        )
    )
    for server in replicas.servers:
        until(lambda server=server: files_with(server.data_dir, "secretword") == [])  # type: ignore[misc]
    assert two.get(other).message_count == 1
    assert index_files(replicas) == made, "an index was made anew"


def test_an_anchor_goes_from_contexts_of_every_server_with_the_conversation_that_it_was_found_in(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    name = one.conversation_of("I moved to Porto.")
    spaces = [it.app.spaces.open_now()[0]._space for it in replicas.servers]
    with spaces[0].writing(name) as state:
        spaces[0].append(state, [AnchorSet("city", "Porto", 0.9, 2, spaces[0].clock())])
    assert [it.value for it in built(two, "", "Hello").anchors] == ["Porto"]
    monkeypatch.setattr(spaces[1].deletions, "finish_interrupted", lambda *_: True)
    one.delete(name, anchors=DELETE_ANCHORS)
    assert list(built(two, "", "Hello").anchors) == []


def test_a_communication_that_is_deleted_is_gone_from_every_server_and_the_database(
    replicas: Replicas, postgres: Postgres, meet: Meet, watch: Watch
) -> None:
    one, two = (meet(it) for it in replicas.servers)
    goes = one.write("secretword and more", delivered="w-1").communication.id
    stays = two.write("apricot", party="1555001").communication.id
    panels = [watch(server=it).ready() for it in replicas.servers]
    assert {it.id for it in two.listed()} == {goes, stays}
    made = index_files(replicas)
    receipt = one.delete(goes, request_id="d1")
    assert two.delete(goes, request_id="d1") == receipt
    assert [it.id for it in two.listed()] == [it.id for it in one.listed()] == [stays]
    assert code_of(lambda: two.reply(goes)) == "NOT_FOUND"
    for panel in panels:
        assert panel.until_count(2).kinds() == ["list", "deleted"]
        assert panel.updates[-1].communication_id == goes
    for server in replicas.servers:
        until(lambda server=server: files_with(server.data_dir, "secretword") == [])  # type: ignore[misc]
    logs = "SELECT DISTINCT log FROM recollect.lines WHERE log LIKE 'ext-%'"
    until(lambda: postgres.execute(logs, replicas.url) == [(stays,)])
    assert index_files(replicas) == made, "an index was made anew"
    late = two.write("secretword and more", delivered="w-1")
    assert (late.duplicate, late.communication.id) == (True, "")


def test_a_communication_that_another_server_began_to_delete_is_not_begun_anew(
    replicas: Replicas, postgres: Postgres, meet: Meet
) -> None:
    """The server that deletes it is gone before it noted what a provider delivered there."""
    one, two = (meet(it) for it in replicas.servers)
    name = one.write("secretword", delivered="w-1").communication.id
    assert [it.id for it in two.listed()] == [name]
    refused = "ALTER TABLE recollect.lines ADD CONSTRAINT no CHECK (log <> 'forgotten') NOT VALID"
    postgres.execute(refused, replicas.url)
    assert name in one.delete(name).failure
    for server in (two, one):
        late = code_of(lambda server=server: server.write("secretword", delivered="w-1"))  # type: ignore[misc]
        assert late == "UNAVAILABLE"
    postgres.execute("ALTER TABLE recollect.lines DROP CONSTRAINT no", replicas.url)
    for server in (two, one):
        # it may be ending that delete just now, and says so: a provider delivers again
        until(
            lambda server=server: (
                code_of(lambda: server.write("secretword", delivered="w-1"))  # type: ignore[misc]
                != "UNAVAILABLE"
            )
        )
        again = server.write("secretword", delivered="w-1")
        assert (again.duplicate, again.communication.id) == (True, "")
        assert server.listed() == []


def test_what_one_server_forgets_while_another_one_does_is_delivered_again_to_neither(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    one.own("whatsapp", ALEX)
    one.own("discord", "77")
    first = here(one.whatsapp("secretword", delivery="w-1")).id
    other = here(one.discord("more of it", delivery="d-1", dm_user_id="77")).id
    assert {it.id for it in two.pages()[0]} == {first, other}
    space = replicas.servers[0].app.spaces.open_now()[0]._space
    forget = received.forget_deliveries

    def forget_beside(*of: Any) -> Any:
        """Let the other server forget something right behind what this one wrote."""
        monkeypatch.setattr(received, "forget_deliveries", forget)
        done = forget(*of)
        two.delete(other)
        return done

    monkeypatch.setattr(received, "forget_deliveries", forget_beside)
    with monkeypatch.context() as late:
        late.setattr(space.deletions, "finish_interrupted", lambda *_: True)
        one.delete(first)
        for server in (one, two):
            assert server.discord("more of it", delivery="d-1", dm_user_id="77").duplicate
            assert server.whatsapp("secretword", delivery="w-1").duplicate
    assert one.pages()[0] == []


def test_a_delete_that_is_repeated_on_another_server_is_answered_with_its_receipt(
    replicas: Replicas, postgres: Postgres
) -> None:
    one, two = replicas.one, replicas.two
    name, other, third = (one.conversation_of(text) for text in ("apricot", "butter", "zebra"))
    receipt = one.delete(name, request_id="d1")
    assert two.delete(name, request_id="d1") == receipt
    reused = failure_of(lambda: two.delete(other, request_id="d1"))
    assert (reused.code, reused.reason) == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")
    assert code_of(lambda: two.delete(name, request_id="d2")) == "NOT_FOUND"
    raced = one.conversation_of("lemon")

    def race(number: int) -> None:
        with suppress(grpc.RpcError):
            replicas[number].delete(raced, request_id="d0")

    at_once(8, race)
    assert one.delete(raced, request_id="d0") == two.delete(raced, request_id="d0")
    chosen = api.DeleteManyRequest(channels=["web"], limit=1, request_id="d3")
    assert one.conversations.DeleteMany(chosen) == two.conversations.DeleteMany(chosen)
    assert len(two.pages()[0]) == 1
    (left,) = {other, third} & {it.id for it in two.pages()[0]}
    refused = "ALTER TABLE recollect.receipts ADD CONSTRAINT no CHECK (answer !~ '^{') NOT VALID"
    postgres.execute(refused, replicas.url)
    assert code_of(lambda: one.delete(left, request_id="d4")) == "UNAVAILABLE"
    unfinished = failure_of(lambda: two.delete(left, request_id="d4"))
    assert (unfinished.code, unfinished.reason) == ("UNAVAILABLE", "STORAGE_UNAVAILABLE")
    assert code_of(lambda: two.delete(left, request_id="d5")) == "NOT_FOUND"
    postgres.execute("ALTER TABLE recollect.receipts DROP CONSTRAINT no", replicas.url)
    finished = two.delete(left, request_id="d4")  # two finishes what one began
    removed = {it.place: it.count for it in finished.removed}
    assert (removed["messages"], removed["search_terms"]) == (1, 1)
    assert one.delete(left, request_id="d4") == finished
    assert code_of(lambda: two.get(left)) == "NOT_FOUND"


def test_a_delete_that_was_refused_and_ended_by_itself_is_answered_with_its_receipt(
    replicas: Replicas, postgres: Postgres
) -> None:
    one, two = replicas.one, replicas.two
    name = one.conversation_of("apricot")
    assert two.found("apricot") == [name]
    refused = "ALTER TABLE recollect.receipts ADD CONSTRAINT no CHECK (answer !~ '^{') NOT VALID"
    postgres.execute(refused, replicas.url)
    assert code_of(lambda: one.delete(name, request_id="d1")) == "UNAVAILABLE"
    postgres.execute("ALTER TABLE recollect.receipts DROP CONSTRAINT no", replicas.url)
    until(lambda: postgres.execute("SELECT FROM recollect.logs", replicas.url) == [])
    receipt = two.delete(name, request_id="d1")
    removed = {it.place: it.count for it in receipt.removed}
    assert (removed["messages"], removed["search_terms"]) == (1, 1)
    assert one.delete(name, request_id="d1") == receipt


def test_a_delete_that_is_repeated_elsewhere_in_any_moment_of_it_is_answered_with_its_receipt(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    first, second = one.conversation_of("apricot"), one.conversation_of("butter")
    answers: list[object] = []
    store, other = (it.app.spaces.open_now()[0]._space.store for it in replicas.servers)
    end, begin = store.drop, other.swap

    def repeat_behind(log: str, version: Version) -> dict[str, int]:
        removed = end(log, version)
        monkeypatch.undo()
        answers.append(two.delete(first, request_id="d1"))
        return removed

    monkeypatch.setattr(store, "drop", repeat_behind)
    receipt = one.delete(first, request_id="d1")
    until(lambda: answers)  # the other server may have been the one that removed the lines
    assert answers == [receipt]

    def be_overtaken(log: str, *values: Any, **options: Any) -> None:
        monkeypatch.undo()
        answers.append(one.delete(second, request_id="d2"))
        begin(log, *values, **options)

    monkeypatch.setattr(other, "swap", be_overtaken)
    assert two.delete(second, request_id="d2") == answers[-1]


@pytest.mark.parametrize("action", ["delete", "unindex"])
def test_a_conversation_that_another_server_kept_from_being_retired_has_no_receipt(
    postgres: Postgres,
    start_server: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
) -> None:
    url = postgres.new_database()
    monkeypatch.setattr(
        of_space, "_FIRST_RETENTION_SECONDS", 3600.0
    )  # the server's own look, after a second
    one = start_server(
        store=url, data_dir=tmp_path / "one", retention_grace="0s", retention=f"{action} idle=30d"
    )
    two = start_server(store=url, data_dir=tmp_path / "two")
    with Post(one.target) as first, Post(two.target) as second, Client(one.target) as client:
        assert first.pages() == [[]]
        store = one.app.spaces.open_now()[0]._space.store
        step = "swap" if action == "delete" else "append"
        carry_out = getattr(store, step)
        names: list[str] = []

        def be_overtaken(log: str, *values: Any, **options: Any) -> Any:
            if log == names[0]:
                monkeypatch.undo()
                second.append(names[0], user("zebra"))
            return carry_out(log, *values, **options)

        monkeypatch.setattr(store, step, be_overtaken)
        time = moment(one.clock.now - 40 * 86_400_000)
        contents = [[user(text, timestamp=time)] for text in ("apricot", "butter")]
        names += [second.create("web", create_time=time).id for _ in contents]
        for name, messages in zip(names, contents, strict=True):
            second.append(name, *messages)

        def receipts() -> list[str]:
            page = list(client.admin.list_retention_receipts())
            return [it.conversation.conversation_id for it in page]

        with one.app.spaces.use("default") as space:
            assert space.service(Retention).carry_out(10) == 1
        assert second.found("butter") == []
        assert second.found("zebra") == [names[0]]
        assert receipts() == [names[1]]
        second.delete(names[0])
        assert receipts() == [names[1]]


def test_a_redaction_takes_the_words_out_of_every_server(
    replicas: Replicas, postgres: Postgres
) -> None:
    one, two = replicas.one, replicas.two
    name = one.conversation_of("apricot secretword", "butter")
    assert two.found("secretword") == [name]
    made = index_files(replicas)
    sequence = one.load(name).messages[0].sequence
    redact(one, name, sequence=sequence)
    one.append(name, user("zebra"))
    assert two.found("secretword") == []
    assert (two.found("zebra"), two.found("butter")) == ([name], [name])
    assert said(two, name) == said(one, name)
    until(lambda: postgres.execute("SELECT log FROM recollect.redacted_lines", replicas.url) == [])
    for server in replicas.servers:
        until(lambda server=server: files_with(server.data_dir, "secretword") == [])  # type: ignore[misc]
    assert index_files(replicas) == made, "an index was made anew"


def test_a_server_that_learns_of_a_redaction_behind_the_delete_keeps_no_word(
    replicas: Replicas, postgres: Postgres
) -> None:
    """The lines that are left of the conversation do not say which words the index has."""
    one, two = replicas.one, replicas.two
    name, other = one.conversation_of("secretword", "butter"), one.conversation_of("zebra")
    assert two.found("secretword") == [name]
    made = index_files(replicas)
    space = replicas.servers[1].app.spaces.open_now()[0]._space
    with space.exclusive(conversation=name):  # it follows nothing of the conversation meanwhile
        redact(one, name, sequence=one.load(name).messages[0].sequence)
        one.delete(name)
    assert two.found("secretword") == []
    lines = "SELECT DISTINCT log FROM recollect.lines"
    until(lambda: postgres.execute(lines, replicas.url) == [(other,)])
    assert postgres.execute("SELECT FROM recollect.redacted_lines", replicas.url) == []
    until(lambda: files_with(replicas.servers[1].data_dir, "secretword") == [])
    assert two.found("zebra") == [other]
    assert index_files(replicas) == made, "an index was made anew"


def test_a_redaction_that_a_delete_elsewhere_overtakes_finds_nothing_and_keeps_the_index(
    replicas: Replicas, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    name, other = one.conversation_of("secretword", "butter"), one.conversation_of("zebra")
    assert two.found("secretword") == [name]
    made = index_files(replicas)
    sequence = one.load(name).messages[0].sequence
    store = replicas.servers[0].app.spaces.open_now()[0]._space.store
    begin = store.swap

    def be_overtaken(*values: Any, **named: Any) -> None:
        begin(*values, **named)
        monkeypatch.undo()
        two.delete(name)

    monkeypatch.setattr(store, "swap", be_overtaken)
    overtaken = failure_of(lambda: redact(one, name, sequence=sequence))
    assert (overtaken.code, overtaken.reason) == ("NOT_FOUND", "CONVERSATION_NOT_FOUND")
    for service in (one, two):
        assert (service.found("secretword"), service.found("zebra")) == ([], [other])
    lines = "SELECT DISTINCT log FROM recollect.lines"
    until(lambda: postgres.execute(lines, replicas.url) == [(other,)])
    until(lambda: postgres.execute("SELECT FROM recollect.redacted_lines", replicas.url) == [])
    for server in replicas.servers:
        until(lambda server=server: files_with(server.data_dir, "secretword") == [])  # type: ignore[misc]
    assert index_files(replicas) == made, "an index was made anew"


def test_words_go_and_come_back_by_the_text_that_another_server_redacted_meanwhile(
    replicas: Replicas,
) -> None:
    one, two = replicas.one, replicas.two
    name = one.conversation_of("apricot secretword", "butter hiddenword")
    assert two.found("secretword") == two.found("hiddenword") == [name]
    made = index_files(replicas)
    space = replicas.servers[1].app.spaces.open_now()[0]._space
    first, second = (it.sequence for it in one.load(name).messages[:2])
    server = replicas.servers[0]
    unindexed = ConversationUnindexed(server.clock.now)
    with space.exclusive(conversation=name):  # it follows nothing of the conversation meanwhile
        server.app.spaces.open_now()[0]._space.record(name, lambda _: [unindexed])
        redact(one, name, sequence=first)
        stored = space.index.conversations.find(name)
        assert stored is not None
        while take_out_part(space.store, space.index, name, stored):
            pass
    until(lambda: files_with(replicas.servers[1].data_dir, "secretword") == [])
    assert two.found("butter") == []
    with space.exclusive(conversation=name):
        one.append(name, user("zebra"))
        redact(one, name, sequence=second)
        stored = space.index.conversations.find(name)
        assert stored is not None
        while bring_back_part(space.store, space.index, name, stored):
            pass
    assert two.found("zebra") == [name]
    assert two.found("secretword") == two.found("hiddenword") == []
    until(lambda: files_with(replicas.servers[1].data_dir, "secretword", "hiddenword") == [])
    with Client(replicas.servers[1].target) as client:
        assert verified(client).problems == ()
    assert index_files(replicas) == made, "an index was made anew"


def test_a_delete_by_another_server_while_a_space_is_verified_is_no_false_alarm(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    deleted = one.conversation_of("secretword")
    assert two.found("secretword") == [deleted]
    store = replicas.servers[1].app.spaces.open_now()[0]._space.store
    logs, calls = store.logs, count(1)

    def listed(kind: Kind) -> list[tuple[str, int]]:
        there = list(logs(kind))
        is_second = kind is Kind.CONVERSATION and next(calls) == 2  # behind what the index has
        return [it for it in there if it[0] != deleted] if is_second else there

    def ended(_: LogStore, log: str) -> bool:
        with suppress(grpc.RpcError):  # it is looked at twice
            one.delete(log)
        return False

    monkeypatch.setattr(store, "logs", listed)
    monkeypatch.setattr(comparison, "is_taken", ended)
    with Client(replicas.servers[1].target) as client:
        assert verified(client).problems == ()
    assert code_of(lambda: one.get(deleted)) == "NOT_FOUND"


def test_a_redaction_that_another_server_was_faster_with_answers_as_it_is_now(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    name = one.conversation_of("secretword")
    title = api.RenameRequest(conversation_id=name, title="On secretword", automatic=True)
    one.conversations.Rename(title)
    assert two.get(name).title == "On secretword"
    sequence = two.load(name).messages[0].sequence
    store = replicas.servers[1].app.spaces.open_now()[0]._space.store
    length = store.length

    def be_overtaken(log: str, version: Version = Version.PRESENT) -> int:
        try:
            return length(log, version)
        finally:
            if version is Version.REPLACED:
                monkeypatch.undo()
                redact(one, name, sequence=sequence)

    monkeypatch.setattr(store, "length", be_overtaken)
    done = redact(two, name, sequence=sequence)
    assert (done.duplicate, done.conversation) == (True, one.get(name))


def test_deleting_many_passes_over_what_another_server_deletes_meanwhile(
    replicas: Replicas,
) -> None:
    names = [replicas.one.conversation_of(f"apricot {number}") for number in range(3)]
    assert set(replicas.two.found("apricot")) == set(names)
    space = replicas.servers[1].app.spaces.open_now()[0]._space

    def deleting(name: str) -> None:
        if name == names[1]:
            replicas.one.delete(name)

    done = Removals(space).delete_many(
        Filter(), DELETE_ANCHORS, 10, "", force=False, dry_run=False, deleting=deleting
    )
    assert (done.conversations, done.failure) == ([names[0], names[2]], "")
    assert replicas.one.found("apricot") == replicas.two.found("apricot") == []


def test_a_server_that_others_took_for_gone_keeps_no_word_of_what_they_deleted(
    replicas: Replicas, postgres: Postgres
) -> None:
    one, two = replicas.one, replicas.two
    name, redacted, other = (
        one.conversation_of("secretword"),
        one.conversation_of("secretword"),
        one.conversation_of("zebra"),
    )
    assert set(two.found("secretword")) == {name, redacted}
    postgres.execute("DELETE FROM recollect.followers", replicas.url)  # as after half a minute
    one.delete(name)
    redact(one, redacted, sequence=one.load(redacted).messages[0].sequence)
    one.append(redacted, user("butter"))
    assert postgres.execute("SELECT FROM recollect.redacted_lines", replicas.url) == []
    until(lambda: two.found("secretword") == [])
    assert code_of(lambda: two.get(name)) == "NOT_FOUND"
    until(lambda: files_with(replicas.servers[1].data_dir, "secretword") == [])
    until(lambda: set(two.found("zebra")) == {other} and two.found("butter") == [redacted])
    assert said(two, redacted) == said(one, redacted)


def test_a_delete_that_was_cut_short_is_hidden_and_ends_though_others_cannot_be_read(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    unread, lost, name = (one.conversation_of(it) for it in ("zebra", "apricot", "butter"))
    assert {it.id for it in two.pages()[0]} == {unread, lost, name}
    space = replicas.servers[1].app.spaces.open_now()[0]._space
    refused = {lost, name}

    def refusing(method: Any) -> Any:
        def refuse(self: PostgresStore, log: str, *arguments: Any) -> Any:
            if self is space.store and log in refused:
                raise LogUnavailable(log, "read", "invalid page in block 7")
            return method(self, log, *arguments)

        return refuse

    for method in (PostgresStore.read, PostgresStore.raw):
        monkeypatch.setattr(PostgresStore, method.__name__, refusing(method))
    with pytest.MonkeyPatch.context() as late:
        late.setattr(space.deletions, "finish_interrupted", lambda *_: True)
        for it in (lost, name):
            assert code_of(lambda it=it: two.delete(it)) == "UNAVAILABLE"  # type: ignore[misc]
        refused.remove(name)
        refused.add(unread)
        one.append(unread, user("walrus"))
        assert name not in {it.id for it in two.pages()[0]}
        assert unread in space.doubt
        refused.remove(unread)
        assert two.found("walrus") == [unread]
        assert lost in space.doubt  # it is to be found yet
    until(lambda: not space.deletions.is_left(name))
    assert space.deletions.is_left(lost)


def test_words_of_a_delete_that_others_ended_go_though_the_index_refuses_once(
    replicas: Replicas, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    name = one.conversation_of("secretword")
    assert two.found("secretword") == [name]
    space = replicas.servers[1].app.spaces.open_now()[0]._space
    monkeypatch.setattr(space.deletions, "finish_interrupted", lambda *_: True)
    one.delete(name)
    assert two.found("secretword") == []
    postgres.execute(  # as another server does after half a minute
        "DELETE FROM recollect.traces; DELETE FROM recollect.lines; DELETE FROM recollect.logs",
        replicas.url,
    )
    refused: list[str] = []

    def refuse(log: str) -> int | None:
        monkeypatch.undo()
        refused.append(log)
        raise IndexUnavailable("the disk refuses")

    monkeypatch.undo()
    monkeypatch.setattr(space.index.removal, "find", refuse)
    until(lambda: refused)
    until(lambda: files_with(replicas.servers[1].data_dir, "secretword") == [])
    assert refused == [name]
    assert not space.deletions.is_any_left


@pytest.mark.parametrize("most", [1, 5], ids=["closed", "at rest"])
def test_a_delete_reaches_the_files_of_a_space_that_is_closed_or_rests_on_another_server(
    postgres: Postgres, start_server: Start, tmp_path: Path, most: int
) -> None:
    url = postgres.new_database()
    one, two = (
        start_server(store=url, data_dir=tmp_path / name, max_open_spaces=most)
        for name in ("one", "two")
    )
    with Client(one.target, space="ada") as first, Client(two.target, space="ada") as second:
        name = first.conversations.create("web", messages=[Message.user("secretword")]).id
        assert [hit.conversation_id for hit in second.recall.search("secretword").hits] == [name]
        with Post(two.target) as default:
            default.conversation_of("zebra")

        def rests() -> bool:
            two.app.spaces.rest("ada")  # refused while a job is at work in it
            return "ada" not in {it.name for it in two.app.spaces.open_now()}

        until(rests)
        assert files_with(two.data_dir, "secretword") != []
        first.conversations.delete(name)
    lines = "SELECT FROM recollect.lines WHERE space = 'ada'"
    until(lambda: postgres.execute(lines, url) == [])
    until(lambda: files_with(two.data_dir, "secretword") == [])


def test_a_conversation_that_another_server_begins_just_now_does_not_count_as_damaged(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    name = f"conv-{ULID()}"

    read = PostgresStore.read

    def begin(store: PostgresStore, log: str, *range_: Any) -> Iterator[Line]:
        if log == name:
            monkeypatch.undo()
            one.create(conversation_id=name)
        return read(store, log, *range_)

    monkeypatch.setattr(PostgresStore, "read", begin)
    assert code_of(lambda: two.get(name)) == "NOT_FOUND"
    assert two.get(name).id == name


def test_a_redaction_that_a_read_meets_before_it_is_followed_costs_no_new_index(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    name = one.conversation_of("secretword")
    assert two.found("secretword") == [name]
    made = index_files(replicas)
    space = replicas.servers[1].app.spaces.open_now()[0]._space
    length = space.store.length

    def be_overtaken(log: str) -> int:
        monkeypatch.undo()
        redact(one, name, sequence=2)
        return length(log)

    space._parts.states.forget(name)
    monkeypatch.setattr(space.store, "length", be_overtaken)
    assert two.get(name).message_count == 1
    until(lambda: two.found("secretword") == [])
    for server in replicas.servers:
        until(lambda server=server: files_with(server.data_dir, "secretword") == [])  # type: ignore[misc]
    two.append(name, user("lemon"))
    assert two.found("lemon") == one.found("lemon") == [name]
    assert said(two, name) == said(one, name)
    space.upkeep.repair(lambda: False)  # as its job does every second
    assert index_files(replicas) == made, "an index was made anew"


def test_a_request_of_a_deleted_conversation_is_known_where_it_is_used_again(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    first_user, other = one.create().id, one.conversation_of("apricot")
    one.append(first_user, user("zebra"), request_id="r1")
    assert two.found("zebra") == [first_user]
    made = index_files(replicas)
    space = replicas.servers[1].app.spaces.open_now()[0]._space
    monkeypatch.setattr(space.deletions, "finish_interrupted", lambda *_: True)
    one.delete(first_user)
    first = one.append(other, user("lemon"), request_id="r1")
    assert two.found("lemon") == [other]  # which has the request before it forgot the deleted one
    monkeypatch.undo()
    until(lambda: not space.deletions.is_any_left)
    repeat = two.append(other, user("lemon"), request_id="r1")
    assert (repeat.duplicate, repeat.messages) == (True, first.messages)
    assert len(two.load(other).messages) == 2
    assert index_files(replicas) == made, "an index was made anew"
