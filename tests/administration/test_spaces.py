"""Spaces that an administrator makes and deletes."""

import threading
from pathlib import Path
from typing import Any

import pytest
from recollect import Client, InvalidArgument, Message, NotFound, PermissionDenied, RecollectError
from recollect_server.contract.streams import Streams
from recollect_server.kernel.log.space_removal import receipts
from recollect_server.kernel.space.spaces import Spaces

from tests.administration.conftest import Guarded
from tests.conftest import RunningServer, Start
from tests.waiting import until


def talk(server: RunningServer, space: str, text: str) -> None:
    with Client(server.target, space=space) as client:
        conversation = client.conversations.create("web")
        client.conversations.append_turn(conversation.id, [Message.user(text)])


def names(client: Client) -> list[str]:
    return [it.name for it in client.admin.list_spaces()]


def test_a_made_space_is_there_after_a_restart_though_it_is_empty(start_server: Start) -> None:
    server = start_server()
    with Client(server.target) as client:
        assert client.admin.create_space("ada").created
        assert not client.admin.create_space("ada").created
    server.stop()
    with Client(start_server().target) as client:
        assert names(client) == ["ada", "default"]


def test_nothing_is_left_of_a_deleted_space_but_its_receipt(
    server: RunningServer, client: Client
) -> None:
    data = Path(server.data_dir)
    talk(server, "ada", "quixotriple")
    talk(server, "ben", "stays")
    receipt = client.admin.delete_space("ada")
    assert (receipt.name, receipt.conversations, receipt.external_communications) == ("ada", 1, 0)
    assert receipt.bytes > 0
    assert names(client) == ["ben", "default"]
    assert not [it for it in data.rglob("*") if it.is_file() and b"quixotriple" in it.read_bytes()]
    assert not (data / "ada").exists()
    assert not (data / ".due" / "ada").exists()
    assert [(it.name, it.conversations) for it in receipts(data)] == [("ada", 1)]
    assert "AdminService.DeleteSpace" in (data / "audit.jsonl").read_text()
    with pytest.raises(NotFound, match="there is no space ada"):
        client.admin.delete_space("ada")
    talk(server, "ada", "anew")  # its name may be used again, and begins empty
    assert client.admin.get_stats(space="ada").space.conversations == 1


def test_a_space_at_rest_and_a_closed_one_are_deleted_too(start_server: Start) -> None:
    server = start_server(max_open_spaces=2)
    for space in ("ada", "ben", "cy"):
        talk(server, space, "quixotriple")
    with Client(server.target) as client:
        states = {it.name: it.state for it in client.admin.list_spaces()}
        assert states == {"ada": "closed", "ben": "open", "cy": "open", "default": "closed"}
        server.app.spaces.rest("cy")
        assert "cy" not in {it.name for it in server.app.spaces.open_now()}
        for space in ("ada", "ben", "cy"):
            assert client.admin.delete_space(space).conversations == 1
        assert names(client) == ["default"]


def test_a_delete_ends_the_streams_of_its_space_and_of_no_other(
    server: RunningServer, client: Client
) -> None:
    ended: dict[str, str] = {}

    def watch(space: str, opened: threading.Event) -> None:
        with Client(server.target, space=space) as watching:
            try:
                for _ in watching.conversations.watch():
                    opened.set()
            except RecollectError as error:
                ended[space] = str(error)

    for space in ("ada", "ben"):
        talk(server, space, "hello")
        opened = threading.Event()
        threading.Thread(target=watch, args=(space, opened), daemon=True).start()
        assert opened.wait(20)
    client.admin.delete_space("ada")
    until(lambda: "ada" in ended)
    assert ended == {"ada": "there is no space ada"}


@pytest.mark.parametrize("moment", ["opened", "being opened"])
def test_a_subscriber_that_comes_while_its_space_is_deleted_holds_nothing_up(
    moment: str, server: RunningServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(server, "ada", "hello")
    remove, open_stream = Spaces.remove, Streams.open
    opening = threading.Event()
    ends: list[str] = []

    def subscribe() -> None:
        with Client(server.target, space="ada") as watching:
            try:
                for _ in watching.conversations.watch():
                    opening.set()
            except RecollectError as error:
                ends.append(str(error))

    subscriber = threading.Thread(target=subscribe, daemon=True)

    def be_overtaken(spaces: Spaces[Any], *arguments: Any) -> Any:
        subscriber.start()
        until(lambda: opening.is_set() or ends)
        return remove(spaces, *arguments)

    def be_late(*arguments: Any, **named: Any) -> None:
        opening.set()
        if moment == "being opened":
            until(lambda: server.app.spaces.is_leaving("ada"))
        open_stream(*arguments, **named)

    monkeypatch.setattr(Spaces, "remove", be_overtaken)
    monkeypatch.setattr(Streams, "open", be_late)
    assert client.admin.delete_space("ada").conversations == 1
    subscriber.join(20)
    assert ends == ["there is no space ada"]
    assert names(client) == ["default"]


def test_the_default_space_is_not_deleted(client: Client) -> None:
    with pytest.raises(InvalidArgument, match="space of calls that name none"):
        client.admin.delete_space("default")
    assert names(client) == ["default"]


def test_an_administrator_of_a_space_makes_and_deletes_no_other(guarded: Guarded) -> None:
    admin = guarded.connect("admin", "one", "hers").admin
    with pytest.raises(NotFound):
        admin.delete_space("two")
    with pytest.raises(PermissionDenied):
        admin.create_space("other")
    assert admin.create_space("hers").created
    assert admin.delete_space("hers").conversations == 0
    guarded.operator.admin.create_space("his")
    guarded.operator.admin.delete_space("his")
    assert [it.name for it in admin.list_space_receipts()] == ["hers"]
    first = guarded.operator.admin.list_space_receipts_page(page_size=1)
    second = guarded.operator.admin.list_space_receipts_page(page_token=first.next_page_token)
    assert [it.name for page in (first, second) for it in page] == ["his", "hers"]
    all_of_them = guarded.operator.admin.list_space_receipts(page_size=1)
    assert [it.name for it in all_of_them] == ["his", "hers"]
    assert "two" in {it.name for it in guarded.operator.admin.list_spaces()}


def test_a_folder_in_the_data_folder_that_is_no_space_is_taken_for_none_and_never_deleted(
    start_server: Start, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    own = data / "backups"
    server = start_server(data_dir=data, backup_dir=own)
    with Client(server.target) as client:
        client.conversations.create("web")
        client.admin.backup()
        with pytest.raises(InvalidArgument, match="something else in it"):
            client.admin.create_space("backups")
        with pytest.raises(InvalidArgument, match="something else in it"):
            talk(server, "backups", "hello")
        with pytest.raises(NotFound):
            client.admin.delete_space("backups")
        talk(server, "ada", "hello")
        (server.data_dir / "ada" / "notes.txt").write_text("mine")
        with pytest.raises(InvalidArgument, match=r"move .*notes\.txt"):
            client.admin.delete_space("ada")
        talk(server, "ada", "and on")
        (server.data_dir / "ada" / "notes.txt").unlink()
        assert client.admin.delete_space("ada").conversations == 2
    assert list(own.iterdir())


@pytest.mark.parametrize("linked", ["", "conversations"])
def test_a_space_that_is_a_link_is_deleted_where_it_leads_and_servers_start(
    start_server: Start, tmp_path: Path, linked: str
) -> None:
    server = start_server()
    talk(server, "ada", "quixotriple")
    server.stop()
    path, elsewhere = server.data_dir / "ada" / linked, tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    server = start_server()
    with Client(server.target) as client:
        assert client.admin.delete_space("ada").conversations == 1
    assert list(elsewhere.iterdir()) == []
    server.stop()
    with Client(start_server().target) as client:
        assert names(client) == ["default"]
