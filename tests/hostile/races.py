"""Random concurrent calls of everything that changes something, on few conversations.

Callers share conversations, persons, anchors, threads and request ids, so that each call races with
others about the same thing. Most are refused; the codes of refusals are checked too.
"""

from collections.abc import Callable
from typing import Any

from recollect.v1 import anchor_pb2
from recollect.v1 import channel_service_pb2 as channel_api
from recollect.v1 import checkpoint_service_pb2 as checkpoint_api
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import external_communication_service_pb2 as external_api
from recollect.v1 import recall_service_pb2 as recall_api
from recollect.v1.channel_pb2 import CliOrigin, EmailOrigin, OwnerIdentity, WebOrigin
from recollect.v1.channel_pb2 import WhatsappOrigin as Whatsapp
from recollect.v1.checkpoint_pb2 import CheckpointRecord
from recollect.v1.conversation_pb2 import Party
from recollect.v1.external_communication_pb2 import TRUST_KNOWN, TRUST_UNTRUSTED
from recollect.v1.message_pb2 import ROLE_ASSISTANT

from tests.hostile.race_model import KEPT, KEYS, PERSONS, THREADS, TOMBSTONE, Model, Racer


class Caller(Racer):
    """A caller of everything that changes something."""

    def __init__(self, model: Model, target: str, name: str, seed: str, clock: Any) -> None:
        super().__init__(model, target, name, seed, clock)
        self.calls = [
            (6, self.create),
            (24, self.append),
            (6, self.repeat),
            (3, self.rename),
            (3, self.describe),
            (5, self.redact),
            (4, self.delete),
            (1, self.delete_many),
            (2, self.fork),
            (3, self.switch),
            (5, self.note),
            (6, self.anchor),
            (10, self.receive),
            (3, self.command),
            (3, self.identity),
            (4, self.third_party),
            (3, self.draft),
            (4, self.checkpoint),
            (8, self.read),
        ]

    def create(self) -> None:
        """Begin a conversation: with an id of its own, or in a person's place, or by `/new`."""
        if len(self.model.ids) - len(self.model.deleted) > 8 and self.random.random() < 0.8:
            return
        fields: dict[str, Any] = {"channel": "web"}
        if self.random.random() < 0.4:
            fields["conversation_id"] = self.random.choice(KEPT)
        if self.random.random() < 0.4:
            person = Party(contact=self.random.choice(PERSONS))
            fields |= {"channel": "whatsapp", "party": person, "pinned": True}
        if self.random.random() < 0.7:
            fields["messages"] = self.said()
        self.call(self.talks.Create, api.CreateRequest(request_id=self.request_id(), **fields))

    def append(self) -> None:
        """Append a turn, seldom as an answer to an earlier one or only behind a certain turn."""
        fields: dict[str, Any] = {}
        if self.random.random() < 0.15:
            fields["expected_turn"] = self.random.randint(0, 6)
        if self.random.random() < 0.1:
            fields["draft_id"] = "draft"
        messages = self.said()
        if self.random.random() < 0.1:
            messages = messages[:1]
            messages[0].role = ROLE_ASSISTANT
            fields["in_reply_to_turn"] = self.random.randint(1, 3)
        self.call(
            self.talks.AppendTurn,
            api.AppendTurnRequest(
                conversation_id=self.conversation(),
                messages=messages,
                request_id=self.request_id(),
                **fields,
            ),
        )

    def repeat(self) -> None:
        """Repeat a request, seldom one that is still under way at another caller."""
        with self.model.lock:
            if not self.model.recent:
                return
            method, request = self.random.choice(self.model.recent)
        path = method._method  # type: ignore[attr-defined]
        service, name = path.decode().split("/")[1:]
        stub = {
            "ConversationService": self.talks,
            "RecallService": self.recall,
            "ChannelService": self.post,
            "CheckpointService": self.threads,
            "ExternalCommunicationService": self.outside,
        }[service.rpartition(".")[2]]
        self.call(getattr(stub, name), request)

    def rename(self) -> None:
        """Name a conversation, by hand or as the server does."""
        automatic = self.random.random() < 0.5
        self.call(
            self.talks.Rename,
            api.RenameRequest(
                conversation_id=self.conversation(),
                title=f"Title {self.word()}",
                automatic=automatic,
                topics=["disk-space"] if automatic else (),
                request_id=self.request_id(),
            ),
        )

    def describe(self) -> None:
        """Change topics, metadata, model or archive of a conversation."""
        name, request_id = self.conversation(), self.request_id()
        match self.random.randrange(4):
            case 0:
                topics = self.random.sample(["tea", "disks", "travel"], self.random.randint(0, 2))
                request: Any = api.SetTopicsRequest(topics=topics)
                method: Callable[..., Any] = self.talks.SetTopics
            case 1:
                request = api.UpdateMetadataRequest()
                value = None if self.random.random() < 0.3 else self.name
                request.metadata[self.random.choice("abc")] = value
                method = self.talks.UpdateMetadata
            case 2:
                request, method = api.SetModelRequest(model=self.name), self.talks.SetModel
            case _:
                request = api.ArchiveRequest(unarchive=self.random.random() < 0.5)
                method = self.talks.Archive
        request.conversation_id, request.request_id = name, request_id
        self.call(method, request)

    def redact(self) -> None:
        """Redact a message, or a turn."""
        name = self.conversation()
        if self.random.random() < 0.7:
            sequence = self.random.randint(1, 9)
            answer = self.call(
                self.talks.RedactMessage,
                api.RedactMessageRequest(
                    conversation_id=name, sequence=sequence, request_id=self.request_id()
                ),
            )
        else:
            answer = self.call(
                self.talks.RedactMessage,
                api.RedactMessageRequest(
                    conversation_id=name,
                    turn_number=self.random.randint(1, 4),
                    request_id=self.request_id(),
                ),
            )
        if answer is not None:
            for it in answer.messages:
                assert it.HasField("redaction"), it
                assert it.content == TOMBSTONE, it

    def delete(self) -> None:
        """Delete a conversation."""
        if len(self.model.ids) - len(self.model.deleted) < 3:
            return
        keep = api.ANCHOR_DISPOSITION_KEEP, api.ANCHOR_DISPOSITION_DELETE
        self.call(
            self.talks.Delete,
            api.DeleteRequest(
                conversation_id=self.conversation(),
                anchors=self.random.choice([*keep, *keep, api.ANCHOR_DISPOSITION_UNSPECIFIED]),
                force=self.random.random() < 0.7,
                request_id=self.request_id(),
            ),
        )

    def delete_many(self) -> None:
        """Delete two conversations, or those of a topic."""
        fields: dict[str, Any] = {"topics": ["travel"]}
        if self.random.random() < 0.5:
            fields = {"conversation_ids": list({self.conversation(), self.conversation()})}
        self.call(
            self.talks.DeleteMany,
            api.DeleteManyRequest(
                limit=2,
                anchors=api.ANCHOR_DISPOSITION_DELETE,
                request_id=self.request_id(),
                **fields,
            ),
        )

    def fork(self) -> None:
        """Fork a conversation."""
        self.call(
            self.talks.Fork,
            api.ForkRequest(
                conversation_id=self.conversation(),
                through_turn=self.random.randint(0, 3),
                request_id=self.request_id(),
            ),
        )

    def switch(self) -> None:
        """Leave a conversation for another one."""
        self.call(
            self.talks.Switch,
            api.SwitchRequest(
                from_conversation_id=self.conversation(),
                to_conversation_id=self.conversation(),
                request_id=self.request_id(),
            ),
        )

    def note(self) -> None:
        """Write notes or a summary, or ask for them."""
        name, request_id = self.conversation(), self.request_id()
        match self.random.randrange(3):
            case 0:
                self.call(
                    self.talks.RecordAbbreviation,
                    api.RecordAbbreviationRequest(
                        conversation_id=name,
                        text=f"Notes {self.word()}",
                        topics=["tea"],
                        request_id=request_id,
                    ),
                )
            case 1:
                self.call(
                    self.talks.RecordCompression,
                    api.RecordCompressionRequest(
                        conversation_id=name,
                        compressed_through=self.random.randint(1, 3),
                        summary=f"Summary {self.word()}",
                        request_id=request_id,
                    ),
                )
            case _:
                self.call(
                    self.talks.RegenerateNotes,
                    api.RegenerateNotesRequest(conversation_id=name, request_id=request_id),
                )

    def anchor(self) -> None:
        """Set or forget one of few anchors, mostly from a message."""
        key = self.random.choice(KEYS)
        if self.random.random() < 0.25:
            request = recall_api.DeleteAnchorRequest(key=key, request_id=self.request_id())
            self.call(self.recall.DeleteAnchor, request)
            return
        source = None
        if self.random.random() < 0.7:
            source = anchor_pb2.AnchorSource(
                conversation_id=self.conversation(), sequence=self.random.randint(2, 6)
            )
        self.call(
            self.recall.SetAnchor,
            recall_api.SetAnchorRequest(
                key=key, value=self.word(), source=source, request_id=self.request_id()
            ),
        )

    def receive(self) -> None:
        """Deliver a message over a channel, seldom one that another caller delivers too."""
        self._number += 1
        delivery = f"d{self.name}-{self._number}"
        if self.random.random() < 0.25:
            delivery = f"shared-{self.random.randrange(40)}"
        text = self.word()
        if self.random.random() < 0.15:
            text = self.random.choice(["/new", "/status", "/end", "/summary"])
        fields: dict[str, Any]
        match self.random.randrange(5):
            case 0 | 1:
                sender = self.random.choice(PERSONS)
                fields = {"channel": "whatsapp", "sender": sender, "whatsapp": Whatsapp()}
            case 2:
                session = self.random.choice(["", "work"])
                fields = {"channel": "cli", "cli": CliOrigin(session_name=session)}
            case 3:
                mail = EmailOrigin(
                    message_id=f"<{delivery}@example.org>",
                    in_reply_to=f"<shared-{self.random.randrange(40)}@example.org>",
                )
                sender = self.random.choice(["alex@example.org", "sam@example.org"])
                fields = {"channel": "email", "sender": sender, "email": mail}
            case _:
                origin = WebOrigin(conversation_id=self.conversation())
                fields = {"channel": "web", "web": origin}
        self.call(
            self.post.Receive,
            channel_api.ReceiveRequest(provider_message_id=delivery, text=text, **fields),
        )

    def command(self) -> None:
        """Run a command in a conversation."""
        self.call(
            self.post.RunCommand,
            channel_api.RunCommandRequest(
                conversation_id=self.conversation(),
                text=self.random.choice(["/new", "/status", "/end", "/rename Zebra", "/summary"]),
                request_id=self.request_id(),
            ),
        )

    def identity(self) -> None:
        """Change who the owner is."""
        person = self.random.choice(PERSONS[1:])
        request_id = self.request_id()
        match self.random.randrange(4):
            case 0 | 1:
                self.call(
                    self.post.AddOwnerIdentity,
                    channel_api.AddOwnerIdentityRequest(
                        channel="whatsapp", identity=person, request_id=request_id
                    ),
                )
            case 2:
                self.call(
                    self.post.RemoveOwnerIdentity,
                    channel_api.RemoveOwnerIdentityRequest(
                        channel="whatsapp", identity=person, request_id=request_id
                    ),
                )
            case _:
                both = [OwnerIdentity(channel="whatsapp", identity=it) for it in PERSONS[:2]]
                self.call(
                    self.post.LinkIdentities,
                    channel_api.LinkIdentitiesRequest(
                        person="alex", identities=both, request_id=request_id
                    ),
                )

    def third_party(self) -> None:
        """Change the trust in a third party, answer it, or resolve what it asked."""
        listed = self.call(
            self.outside.ListCommunications, external_api.ListCommunicationsRequest()
        )
        if not listed or not listed.communications:
            return
        name = self.random.choice(listed.communications).id
        request_id = self.request_id()
        match self.random.randrange(4):
            case 0:
                self.call(
                    self.outside.SetTrust,
                    external_api.SetTrustRequest(
                        communication_id=name,
                        trust=self.random.choice([TRUST_UNTRUSTED, TRUST_KNOWN]),
                        request_id=request_id,
                    ),
                )
            case 1:
                self.call(
                    self.outside.RecordReply,
                    external_api.RecordReplyRequest(
                        communication_id=name, text=self.word(), request_id=request_id
                    ),
                )
            case 2:
                self.call(
                    self.outside.RegisterContact,
                    external_api.RegisterContactRequest(
                        channel="whatsapp",
                        party=self.random.choice(PERSONS),
                        trust=TRUST_KNOWN,
                        request_id=request_id,
                    ),
                )
            case _:
                open_ones = self.call(
                    self.outside.ListEscalations, external_api.ListEscalationsRequest()
                )
                if open_ones and open_ones.escalations:
                    escalation = self.random.choice(open_ones.escalations).id
                    self.call(
                        self.outside.ResolveEscalation,
                        external_api.ResolveEscalationRequest(
                            escalation_id=escalation, answer="Yes", request_id=request_id
                        ),
                    )

    def draft(self) -> None:
        """Publish a part of an answer."""
        self.call(
            self.talks.PublishDelta,
            api.PublishDeltaRequest(
                conversation_id=self.conversation(), draft_id="draft", offset=0, text=self.name
            ),
        )

    def checkpoint(self) -> None:
        """Put or remove records of a thread, or delete it."""
        thread = self.random.choice(THREADS)
        keys = [f"key-{self.random.randrange(4)}" for _ in range(2)]
        match self.random.randrange(5):
            case 0:
                self.call(
                    self.threads.RemoveRecords,
                    checkpoint_api.RemoveRecordsRequest(thread_id=thread, keys=keys[:1]),
                )
            case 1:
                self.call(
                    self.threads.DeleteThread,
                    checkpoint_api.DeleteThreadRequest(thread_id=thread),
                )
            case 2:
                self.call(
                    self.threads.ListRecords, checkpoint_api.ListRecordsRequest(thread_id=thread)
                )
            case _:
                value = self.word().encode()
                records = [
                    checkpoint_api.PutRecord(record=CheckpointRecord(key=key, value=value))
                    for key in dict.fromkeys(keys)
                ]
                self.call(
                    self.threads.PutRecords,
                    checkpoint_api.PutRecordsRequest(
                        thread_id=thread, records=records, request_id=self.request_id()
                    ),
                )

    def read(self) -> None:
        """Read while others write: what is answered is whole."""
        name = self.conversation()
        match self.random.randrange(6):
            case 0:
                answer = self.call(self.talks.Load, api.LoadRequest(conversation_id=name))
                if answer is not None:
                    lines = [it.sequence for it in answer.messages]
                    assert len(lines) == len(set(lines)), f"Load has lines twice: {lines}"
                    assert not answer.damaged_lines
            case 1:
                word = f"zq{self.name}x{self.random.randint(1, self._number + 1)}z"
                answer = self.call(self.recall.Search, recall_api.SearchRequest(query=word))
                self._is_whole(answer)
            case 2:
                answer = self.call(self.talks.List, api.ListRequest())
                if answer is not None:
                    ids = [it.id for it in answer.conversations]
                    assert len(ids) == len(set(ids)), f"List has ids twice: {ids}"
            case 3:
                answer = self.call(
                    self.recall.BuildContext,
                    recall_api.BuildContextRequest(conversation_id=name, message="zebra"),
                )
                self._is_whole(answer)
            case 4:
                self.call(
                    self.recall.FetchContext, recall_api.FetchContextRequest(conversation_id=name)
                )
            case _:
                self.call(self.recall.Recent, recall_api.RecentRequest())

    def _is_whole(self, answer: Any) -> None:
        """Check that an answer lacks nothing, but what its server is only just taking in."""
        for it in answer.degraded if answer is not None else ():
            assert self.model.is_shared, it
            assert "not indexed yet" in it.reason or "is made anew" in it.reason, it
