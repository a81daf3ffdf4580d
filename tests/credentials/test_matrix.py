"""Every call with every kind of token, for real: who may, and who may not."""

from collections.abc import Iterator

import pytest
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass
from recollect_server.access.principal import EVERY_SPACE, KINDS
from recollect_server.access.token import new_id, new_secret, token_text
from recollect_server.kernel.domain.time import system_clock
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.cases import each
from tests.conftest import LOOPBACK
from tests.credentials.conftest import CONVERSATION, Caller, Callers, grant, tokens_of
from tests.credentials.contract import METHODS

ALLOWED = {
    "ConversationService.Create": "brain project admin",
    "ConversationService.Get": "brain project panel reader admin",
    "ConversationService.List": "brain project panel reader admin",
    "ConversationService.Load": "brain project panel reader admin",
    "ConversationService.AppendTurn": "brain project admin",
    "ConversationService.StreamUpdates": "brain project panel reader admin",
    "ConversationService.PublishDelta": "brain project admin",
    "ConversationService.Switch": "brain project admin",
    "ConversationService.Rename": "brain panel admin",
    "ConversationService.SetModel": "brain panel admin",
    "ConversationService.Fork": "brain admin",
    "ConversationService.SetTopics": "brain panel admin",
    "ConversationService.Archive": "brain panel admin",
    "ConversationService.UpdateMetadata": "brain project admin",
    "ConversationService.RecordCompression": "brain project admin",
    "ConversationService.RecordAbbreviation": "brain project admin",
    "ConversationService.SetTurnMemory": "brain project admin",
    "ConversationService.ListTurnMemory": "brain project panel reader admin",
    "ConversationService.RegenerateNotes": "brain panel admin",
    "ConversationService.Delete": "brain admin",
    "ConversationService.RedactMessage": "brain admin",
    "ConversationService.DeleteMany": "brain admin",
    "RecallService.Search": "brain panel reader admin",
    "RecallService.FetchContext": "brain panel reader admin",
    "RecallService.Recent": "brain panel reader admin",
    "RecallService.BuildContext": "brain panel reader admin",
    "RecallService.ListTierTransitions": "brain panel reader admin",
    "RecallService.ListAnchors": "brain panel reader admin",
    "RecallService.SetAnchor": "brain admin",
    "RecallService.DeleteAnchor": "brain admin",
    "RecallService.GetProfile": "brain panel reader admin",
    "RecallService.RemoveProfileStatement": "brain admin",
    "InsightService.Usage": "brain panel reader admin",
    "InsightService.TopicsOverTime": "brain panel reader admin",
    "InsightService.ChannelActivity": "brain panel reader admin",
    "InsightService.BusiestConversations": "brain panel reader admin",
    "InsightService.Facets": "brain panel reader admin",
    "InsightService.ListTopics": "brain panel reader admin",
    "CheckpointService.PutRecords": "brain admin",
    "CheckpointService.GetRecords": "brain admin",
    "CheckpointService.ListRecords": "brain admin",
    "CheckpointService.RemoveRecords": "brain admin",
    "CheckpointService.ListThreads": "brain admin",
    "CheckpointService.DeleteThread": "brain admin",
    "AccessService.WhoAmI": "brain project gateway panel reader monitor admin",
    "AdminService.ListSettings": "admin",
    "AdminService.SetSetting": "admin",
    "AdminService.ListSpaces": "admin",
    "AdminService.ListTokens": "admin",
    "AdminService.CreateToken": "admin",
    "AdminService.RevokeToken": "admin",
    "AdminService.RotateToken": "admin",
    "AdminService.ListTokenUses": "admin",
    "AdminService.CreateSpace": "admin",
    "AdminService.DeleteSpace": "admin",
    "AdminService.Backup": "admin",
    "AdminService.GetStats": "admin",
    "AdminService.ListBackups": "admin",
    "AdminService.ListJobs": "admin",
    "AdminService.ListRetentionRules": "admin",
    "AdminService.PreviewRetention": "admin",
    "AdminService.ListRetentionReceipts": "admin",
    "AdminService.ListSpaceReceipts": "admin",
    "AdminService.Verify": "admin",
    "AdminService.GetVerification": "admin",
    "ChannelService.Receive": "brain gateway admin",
    "ChannelService.RunCommand": "brain admin",
    "ChannelService.AddOwnerIdentity": "admin",
    "ChannelService.RemoveOwnerIdentity": "admin",
    "ChannelService.ListOwnerIdentities": "admin",
    "ChannelService.LinkIdentities": "admin",
    "ChannelService.UnlinkIdentity": "admin",
    "ExternalCommunicationService.ListCommunications": "brain panel reader admin",
    "ExternalCommunicationService.GetCommunication": "brain panel reader admin",
    "ExternalCommunicationService.SearchCommunications": "brain panel reader admin",
    "ExternalCommunicationService.RegisterContact": "brain panel admin",
    "ExternalCommunicationService.SetTrust": "brain panel admin",
    "ExternalCommunicationService.RecordReply": "brain panel admin",
    "ExternalCommunicationService.ListEscalations": "brain panel reader admin",
    "ExternalCommunicationService.ResolveEscalation": "brain panel admin",
    "ExternalCommunicationService.StreamCommunicationUpdates": "brain panel reader admin",
    "ExternalCommunicationService.DeleteCommunications": "brain admin",
    "ExternalCommunicationService.RedactExternalMessage": "brain admin",
}
"""The kinds that may make each call."""
NOBODY = ("no token", "revoked", "expired", "unknown")


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Caller]]:
    """Return a caller of each kind, of one server."""
    data_dir = tmp_path_factory.mktemp("data")
    now = system_clock()
    tokens = tokens_of(data_dir, system_clock)
    texts = {
        kind: tokens.create(
            grant(
                kind,
                # what is about the whole server asks for a token that is for every space
                *([EVERY_SPACE] if kind == "admin" else []),
                conversation_id=CONVERSATION * (kind == "project"),
            )
        )[1]
        for kind in KINDS
    }
    texts["revoked"] = tokens.create(grant("admin"))[1]
    tokens.revoke(tokens.verify(texts["revoked"]).id)
    texts["expired"] = tokens.create(grant("admin", expires=now - 1))[1]
    texts["unknown"] = token_text(new_id(), new_secret())
    settings = Settings.load(
        None, {"listen": f"{LOOPBACK}:0", "data_dir": data_dir, "shutdown_grace": "2s"}
    )
    server = app.start(settings)
    made = Callers(server.address, tokens)
    yield {
        "no token": made.with_text(""),
        **{kind: made.with_text(it) for kind, it in texts.items()},
    }
    made.close()
    server.stop()


def asked(name: str) -> ProtoMessage:
    """Return a request that names the project's conversation, and has nothing else."""
    request = GetMessageClass(METHODS[name].input_type)()
    for field in METHODS[name].input_type.fields:
        if field.name.endswith("conversation_id"):
            setattr(request, field.name, CONVERSATION)
    return request


def test_the_table_has_every_call() -> None:
    assert set(ALLOWED) == set(METHODS)
    assert {kind for kinds in ALLOWED.values() for kind in kinds.split()} == set(KINDS)


@each("name", METHODS)
def test_a_call_is_allowed_to_the_kinds_of_the_table_alone(
    name: str, callers: dict[str, Caller]
) -> None:
    outcomes = {kind: callers[kind].outcome(name, asked(name)) for kind in KINDS}
    denied = {kind for kind, outcome in outcomes.items() if outcome == "PERMISSION_DENIED"}
    assert "UNAUTHENTICATED" not in outcomes.values()
    assert set(KINDS) - denied == set(ALLOWED[name].split()), outcomes


@each("name", METHODS)
def test_a_call_without_a_valid_token_is_refused(name: str, callers: dict[str, Caller]) -> None:
    outcomes = {it: callers[it].outcome(name, asked(name)) for it in NOBODY}
    # a connection that goes on presenting a wrong token is slowed
    assert outcomes.pop("no token") == "UNAUTHENTICATED"
    assert set(outcomes.values()) <= {"UNAUTHENTICATED", "LIMIT_EXCEEDED"}
