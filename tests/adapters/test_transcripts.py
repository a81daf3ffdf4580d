"""The transcript that the thin adapters share: messages of another toolkit as a conversation."""

import threading

from recollect import Client, Party, Role
from recollect.adapters.transcripts import Transcript, Words

from tests.conftest import RunningServer


def test_programs_that_begin_a_transcript_at_once_lose_nothing(
    server: RunningServer, client: Client
) -> None:
    at_once = threading.Barrier(4)

    def add(number: int) -> None:
        with Client(server.target) as own:
            for name in range(5):
                at_once.wait(30)
                transcript = Transcript(own, "web", Party(group_id=f"s{name}"), "test")
                transcript.add([({"text": f"{number}"}, Words(role=Role.USER, texts=[["text"]]))])

    threads = [threading.Thread(target=add, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in range(5):
        transcript = Transcript(client, "web", Party(group_id=f"s{name}"), "test")
        assert sorted(it.item["text"] for it in transcript.read()) == ["0", "1", "2", "3"]
        assert transcript.delete()
        assert not transcript.delete()
        transcript.add([({"text": "anew"}, Words(role=Role.USER, texts=[["text"]]))])
        assert [it.item for it in transcript.read()] == [{"text": "anew"}]
