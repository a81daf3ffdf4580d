"""A compression that an agent records is a line of the transcript, and nothing else comes of it."""

import apsw
from recollect_server.notes.table import note_state_of
from recollect_server.recall.vectors.file import NAME

from tests.conftest import MovableClock, RunningServer, Start
from tests.crash.digest import Digest, digest
from tests.naming.conftest import MINUTE, kinds
from tests.server.conftest import Connect
from tests.waiting import until, until_embedded

SUMMARY = "The zeppelin was repainted in turquoise."


def indexed(server: RunningServer) -> Digest:
    """Return the words, messages, topics and anchors in a stopped server's index."""
    assert server.stopped
    contents = digest(server.folder)
    return {
        table: contents[table]
        for table in ("messages", "words", "topics", "participants", "anchors")
    }


def vectors(server: RunningServer) -> dict[str, list[tuple[object, ...]]]:
    """Return the embedded texts of a stopped server, without its progress."""
    connection = apsw.Connection(str(server.folder / NAME))
    rows = {
        table: connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - constants
        for table in ("texts", "places")
    }
    connection.close()
    assert rows["places"]
    return rows


def test_a_compression_changes_no_word_and_no_vector(start_server: Start, connect: Connect) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    conversation = service.conversation_of("We fly to Kyoto in April.", "The car needs new tyres.")
    until_embedded(service, server)
    server.stop()
    before = indexed(server), vectors(server)
    again = start_server(embedder="onnx")
    service = connect(again)
    assert service.compress(conversation, 1, SUMMARY).compressed_through == 1
    until_embedded(service, again)
    for query in ("zeppelin", "an airship got another colour"):
        assert conversation not in service.found(query)
    assert service.load(conversation).compression_summary == SUMMARY
    again.stop()
    assert (indexed(again), vectors(again)) == before


def test_a_compression_brings_no_notes(
    start_server: Start, connect: Connect, clock: MovableClock
) -> None:
    server = start_server(abbreviator="extractive")
    service = connect(server)
    conversation = service.conversation_of("We fly to Kyoto in April.", "The car needs new tyres.")
    clock.move(10 * MINUTE)
    until(lambda: service.get(conversation).abbreviation)
    until(lambda: note_state_of(server.folder).without == 0)
    service.compress(conversation, 1, SUMMARY)
    service.listed(page_size=1)
    assert note_state_of(server.folder).without == 0
    marker = service.conversation_of("Rotate the logs daily.")
    clock.move(20 * MINUTE)
    until(lambda: service.get(marker).abbreviation)
    assert kinds(server, conversation) == ["abbreviation", "compression"]
