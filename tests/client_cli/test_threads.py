"""`threads`: checkpoints of programs, listed and deleted."""

from recollect import CheckpointRecord, Client
from recollect._shared.plain import plain

from tests.client_cli.conftest import Inside


def test_threads_are_listed_and_deleted(inside: Inside, client: Client) -> None:
    assert inside("threads", "list", on_terminal=True).out == "No threads.\n"
    for name in ("alex", "run 7"):
        client.checkpoints.put_records(name, [CheckpointRecord("a", b"1")])
    threads = list(client.checkpoints.list_threads())
    assert inside("threads", "list").lines == [plain(it) for it in threads]
    shown = inside("threads", "list", on_terminal=True).out
    assert "run 7\n" in shown
    assert f"{threads[0].bytes} bytes" in shown
    assert inside("threads", "delete", "alex").code != 0  # nobody can be asked
    assert len(list(client.checkpoints.list_threads())) == 2
    [line] = inside("threads", "delete", "alex", "--yes").lines
    assert line["threadId"] == "alex"
    assert line["bytesRemoved"] > 0
    out = inside("threads", "delete", "alex", "run 7", "--yes", on_terminal=True).out
    assert out.startswith("alex: there is no such thread.\nrun 7: ")
    assert list(client.checkpoints.list_threads()) == []
