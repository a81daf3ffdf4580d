"""The cursor of a request is its own, also when the index takes in several requests at once."""

from tests.conftest import RunningServer, Start
from tests.server.conftest import Connect, Service, user


def test_requests_that_a_start_indexes_together_keep_cursors_of_their_own(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
) -> None:
    conversation_id = service.conversation_of("one")
    server.stop()
    index = server.folder / "conversations.db"
    before = index.read_bytes()
    again = start_server()
    for number in range(3):
        connect(again).append(conversation_id, user(f"more {number}"), request_id=f"r{number}")
    again.stop()
    for leftover in server.folder.glob("conversations.db[-.]*"):
        leftover.unlink()
    index.write_bytes(before)  # as a crash leaves it: behind
    last = connect(start_server())
    repeated = [
        last.append(conversation_id, user(f"more {number}"), request_id=f"r{number}")
        for number in range(3)
    ]
    assert all(answer.duplicate for answer in repeated)
    cursors = [int(answer.cursor.split("-")[1]) for answer in repeated]
    assert cursors == [cursors[0], cursors[0] + 1, cursors[0] + 2]
