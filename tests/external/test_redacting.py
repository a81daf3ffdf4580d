"""RedactExternalMessage: the text of a message is gone from every byte, and its place stays."""

from functools import partial

import pytest
from recollect.v1 import channel_service_pb2 as channel_api
from recollect.v1 import external_communication_service_pb2 as api
from recollect.v1.channel_pb2 import EmailOrigin, WhatsappOrigin
from recollect.v1.external_communication_pb2 import ExternalMessage
from recollect.v1.message_pb2 import Attachment
from recollect_server.kernel.domain.errors import IndexUnavailable
from recollect_server.people.communication_service import External
from recollect_server.people.communication_table import CommunicationRemoval

from tests.at_rest import problems
from tests.conftest import MovableClock, RunningServer, Start
from tests.external.conftest import BLOCKED, KNOWN, Meet, Outside, Watch, folder_of, transcript
from tests.external.test_deleting import hits
from tests.server.conftest import (
    Service,
    code_of,
    delete_index,
    failure_of,
    files_with,
    moment,
    user,
)
from tests.server.test_redact import redact

SECRETS = [
    "quixotriple", "wimblezark", "florbtangle", "snorquibble", "grumpfelix", "zanthquork",
]  # fmt: skip
MAIL = "<m-1@example.org>"


def secret_mail(
    outside: Outside, **fields: object
) -> tuple[str, channel_api.ReceiveResponse, channel_api.ReceiveRequest]:
    """Deliver an e-mail of a stranger that has a secret word in each of its fields."""
    words = iter(SECRETS)
    request = channel_api.ReceiveRequest(
        channel="email",
        sender="hanan@example.org",
        sender_name=next(words),
        provider_message_id=MAIL,
        text=f"My password is {next(words)}, zebra",
        attachments=[Attachment(media_type="a/b", uri=next(words))],
        email=EmailOrigin(
            message_id=MAIL,
            in_reply_to=f"<{next(words)}@x>",
            references=[f"<{next(words)}@x>"],
            subject=next(words),
        ),
        **fields,  # type: ignore[arg-type]
    )
    answer = outside.gateway.Receive(request)
    return answer.external.communication.id, answer, request


def bare(message: ExternalMessage) -> tuple[object, ...]:
    return message.sequence, message.direction, message.timestamp, message.provider_message_id


def test_no_byte_of_any_file_has_the_text_of_a_redacted_message(
    outside: Outside, server: RunningServer, clock: MovableClock, start_server: Start, meet: Meet
) -> None:
    name, answer, request = secret_mail(outside)
    before = answer.external.message
    other = outside.write("Another with zebra", party="1555001").communication.id
    torn = transcript(server, name).with_suffix(".jsonl.torn")
    torn.write_text(SECRETS[0])
    there = files_with(server.data_dir, *SECRETS)
    assert {line.split(": ")[1] for line in there} == {*SECRETS}
    clock.move(5000)
    done = outside.redact(name, before.sequence, request_id="r")
    assert files_with(server.data_dir, *SECRETS) == []
    assert (done.redact_time, done.duplicate) == (moment(clock.now), False)
    assert outside.messages(name) == [done.message]
    assert bare(done.message) == bare(before)
    assert done.message.text == "[redacted]"
    assert done.message.redaction.time == moment(clock.now)
    assert not done.message.HasField("email")
    assert (done.message.sender_name, list(done.message.attachments)) == ("", [])
    assert outside.get(name).communication == done.communication
    assert (done.communication.party_name, done.communication.subject) == ("", "")
    assert done.communication.message_count == 1
    (escalation,) = outside.escalations(communication_id=name)
    assert escalation == done.escalation
    assert escalation.question == "[redacted]\nWhat should be answered?"
    assert hits(outside, "zebra") == [other]
    assert hits(outside, SECRETS[0]) == []
    clock.move(5000)
    for _ in range(2):  # also with a new index
        again = outside.redact(name, before.sequence, request_id="r")
        assert again.duplicate
        again.duplicate = False
        assert again == done
        assert outside.redact(name, before.sequence).duplicate
        repeat = outside.gateway.Receive(request)
        assert (repeat.duplicate, repeat.external.message) == (True, done.message)
        assert outside.messages(name) == [done.message]
        assert files_with(server.data_dir, *SECRETS) == []
        server.stop()
        assert problems(folder_of(server).with_name("conversations")) == []
        delete_index(server)
        server = start_server(sender_rate=0)
        outside = meet(server)


def test_the_next_message_of_the_party_and_the_owners_answer_stay(outside: Outside) -> None:
    first = outside.write("quixotriple one")
    name = first.communication.id
    outside.write("Are you there?")
    assert first.escalation is not None
    outside.resolve(first.escalation.id, "Say that I call back.")
    outside.reply(name, "I call back.")
    outside.redact(name, first.message.sequence)
    assert outside.texts(name) == ["[redacted]", "Are you there?", "I call back."]
    (escalation,) = outside.escalations(include_resolved=True)
    assert escalation.answer == "Say that I call back."
    assert outside.trust(name, KNOWN).message_count == 3
    assert outside.write("Thanks").message.text == "Thanks"


def test_a_reply_is_redacted_and_its_repeat_is_answered_with_the_tombstone(
    outside: Outside, server: RunningServer
) -> None:
    name = outside.write("Hello?").communication.id
    outside.trust(name, KNOWN)
    reply = outside.reply(name, "It is quixotriple.", request_id="q").message
    done = outside.redact(name, reply.sequence)
    assert files_with(server.data_dir, SECRETS[0]) == []
    repeat = outside.reply(name, "Anything at all", request_id="q")
    assert repeat.message == done.message
    assert outside.texts(name) == ["Hello?", "[redacted]"]
    assert outside.texts(name) == ["Hello?", "[redacted]"]


def test_the_request_id_of_a_redacted_reply_is_not_free_for_another_call(
    outside: Outside, service: Service
) -> None:
    """Its hash is gone, so that its lines say what it was."""
    first = outside.write("Hello?")
    name = first.communication.id
    outside.trust(name, KNOWN)
    conversation = service.conversation_of("zebra")
    outside.redact(name, outside.reply(name, "quixotriple", request_id="q").message.sequence)
    contact = api.RegisterContactRequest(
        channel="whatsapp", party="+436601234567", trust=BLOCKED, request_id="q"
    )
    command = channel_api.RunCommandRequest(
        conversation_id=conversation, text="/new", request_id="q"
    )
    assert first.escalation is not None
    for call in (
        partial(outside.redact, name, 2, request_id="q"),
        partial(outside.trust, name, BLOCKED, request_id="q"),
        partial(outside.resolve, first.escalation.id, request_id="q"),
        partial(outside.delete, name, request_id="q"),
        partial(outside.rpc.RegisterContact, contact),
        partial(outside.gateway.RunCommand, command),
        partial(service.append, conversation, user("lemon"), request_id="q"),
        partial(service.rename, conversation, "Title", request_id="q"),
        partial(service.delete, conversation, request_id="q"),
        partial(service.create, request_id="q"),
        partial(redact, service, conversation, sequence=2, request_id="q"),
    ):
        assert failure_of(call).reason == "REQUEST_ID_REUSED"
    assert outside.texts(name) == ["Hello?", "[redacted]"]
    assert [it.content for it in service.load(conversation).messages] == ["zebra"]


def test_a_repeat_of_a_redacted_delivery_with_other_words_stores_nothing(
    outside: Outside, server: RunningServer
) -> None:
    first = outside.write("quixotriple one", delivered="w-1")
    done = outside.redact(first.communication.id, first.message.sequence)
    again = outside.write("wimblezark", delivered="w-1")
    assert (again.duplicate, again.message) == (True, done.message)
    assert files_with(server.data_dir, *SECRETS) == []


def test_panels_get_an_update_and_what_they_missed_has_no_text(
    outside: Outside, watch: Watch
) -> None:
    began = watch().ready().cursor
    panel = watch().ready()
    first = outside.write("quixotriple one")
    name = first.communication.id
    assert first.escalation is not None
    outside.resolve(first.escalation.id, "Say yes.")
    panel.until_count(4)
    done = outside.redact(name, first.message.sequence)
    panel.until_count(5)
    update = panel.updates[-1]
    assert (update.communication_id, panel.kinds()[-1]) == (name, "external_message_redacted")
    redacted = update.external_message_redacted
    assert (redacted.communication, redacted.message, redacted.escalation) == (
        done.communication,
        done.message,
        done.escalation,
    )
    missed = watch(began).ready().until_count(4)
    assert missed.kinds()[0] == "message [redacted]"
    assert update.external_message_redacted in [
        it.external_message_redacted for it in missed.updates if it.cursor == update.cursor
    ]
    assert not any(b"quixotriple" in it.SerializeToString() for it in missed.updates)


def test_a_group_that_an_agent_answers_in_is_shown_without_a_redacted_message(
    outside: Outside,
) -> None:
    group = "120363041234567890@g.us"
    for number, text in enumerate(("quixotriple one", "Good morning")):
        request = channel_api.ReceiveRequest(
            channel="whatsapp",
            sender=f"155500{number}",
            provider_message_id=f"g-{number}",
            text=text,
            whatsapp=WhatsappOrigin(group_id=group),
        )
        received = outside.gateway.Receive(request).external
        if not number:
            outside.redact(received.communication.id, received.message.sequence)
    external = outside.server.app.spaces.open_now()[0].service(External)
    assert [it.message.text for it in external.in_group("whatsapp", group, 10, 100)] == [
        "Good morning"
    ]


@pytest.mark.parametrize("text", ["k", "é", "ok"])
def test_the_shortest_messages_have_room_for_their_tombstones(
    outside: Outside, server: RunningServer, start_server: Start, meet: Meet, text: str
) -> None:
    first = outside.write(text)
    name = first.communication.id
    done = outside.redact(name, first.message.sequence)
    assert done.message.HasField("redaction")
    server.stop()
    assert f'"{text}"' not in transcript(server, name).read_text()
    assert meet(start_server(sender_rate=0)).messages(name) == [done.message]


def test_a_long_message_is_redacted_to_the_last_word(
    outside: Outside, server: RunningServer
) -> None:
    text = " ".join(f"quixotriple{number}" for number in range(9000))
    first = outside.write(text)
    outside.redact(first.communication.id, first.message.sequence)
    assert files_with(server.data_dir, "quixotriple") == []
    server.stop()
    assert problems(folder_of(server).with_name("conversations")) == []


def test_what_cannot_be_redacted_is_refused_by_the_field_and_changes_nothing(
    outside: Outside, server: RunningServer
) -> None:
    name = outside.write("Hello?").communication.id
    before = transcript(server, name).read_bytes()
    for sequence in (0, -1, 1, 3, 4, 1 << 60):
        failure = failure_of(partial(outside.redact, name, sequence))
        assert (failure.reason, failure.fields) == ("INVALID_FIELD", ("sequence",))
    unknown = "ext-01J00000000000000000000000"
    assert code_of(lambda: outside.redact(unknown, 2)) == "NOT_FOUND"
    assert transcript(server, name).read_bytes() == before


def test_a_redaction_that_the_index_refused_ends_with_the_next_index(
    outside: Outside,
    server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    start_server: Start,
    meet: Meet,
) -> None:
    first = outside.write("quixotriple one")
    name = first.communication.id

    def refuse(*_: object, **__: object) -> None:
        raise IndexUnavailable("the disk is full")

    monkeypatch.setattr(CommunicationRemoval, "redact", refuse)
    request = api.RedactExternalMessageRequest(communication_id=name, sequence=2, request_id="r")
    assert code_of(lambda: outside.rpc.RedactExternalMessage(request)) == "UNAVAILABLE"
    monkeypatch.undo()
    server.stop()
    server = start_server(sender_rate=0)
    outside = meet(server)
    assert outside.texts(name) == ["[redacted]"]
    assert files_with(server.data_dir, *SECRETS) == []
    assert outside.rpc.RedactExternalMessage(request).duplicate


@pytest.mark.files
def test_a_log_that_grew_by_hand_is_redacted_once_its_lines_are_taken_in(
    outside: Outside, server: RunningServer
) -> None:
    name = outside.write("quixotriple one").communication.id
    path = transcript(server, name)
    line = b'{"type":"turn","role":"user","content":"by hand","timestamp":"2026-01-01T00:00:00Z"}\n'
    path.write_bytes(grown := path.read_bytes() + line)
    failure = failure_of(lambda: outside.redact(name, 2))
    assert (failure.code, failure.reason) == ("UNAVAILABLE", "INDEX_UNAVAILABLE")
    assert path.read_bytes() == grown
    assert outside.redact(name, 2).message.text == "[redacted]"
    assert line in path.read_bytes()
    assert files_with(server.data_dir, *SECRETS) == []
    assert outside.write("two").communication.id == name
    assert outside.texts(name) == ["[redacted]", "two"]


@pytest.mark.files
def test_in_a_log_that_was_emptied_there_is_no_message_to_redact(
    outside: Outside, server: RunningServer
) -> None:
    name = outside.write("quixotriple one").communication.id
    transcript(server, name).write_bytes(b"")
    failure = failure_of(lambda: outside.redact(name, 2))
    assert (failure.code, failure.fields) == ("INVALID_ARGUMENT", ("sequence",))
