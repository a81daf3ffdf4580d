"""Tokens that an administrator creates, rotates and revokes by calls."""

from datetime import UTC, datetime, timedelta

import pytest
import recollect
from recollect_server.access.principal import EVERY_SPACE
from recollect_server.access.token import parse

from tests.administration.conftest import Guarded
from tests.cases import each

NEXT_YEAR = datetime.now(UTC).replace(microsecond=0) + timedelta(days=365)


def names(guarded: Guarded, secret: str) -> list[str]:
    """Return the channels of the conversations that a new token reads."""
    with recollect.Client(guarded.target, token=secret) as client:
        return [it.channel for it in client.conversations.list()]


def test_a_created_token_works_at_once_and_is_shown_once(guarded: Guarded) -> None:
    admin = guarded.operator.admin
    made = admin.create_token("reader", spaces=["two"], expire_time=NEXT_YEAR, note="the wall")
    assert names(guarded, made.secret) == ["web"]
    assert made.secret not in repr(made)
    [listed] = [it for it in admin.list_tokens() if it.note == "the wall"]
    assert listed == made.token
    assert (listed.spaces, listed.expire_time, listed.state) == (("two",), NEXT_YEAR, "valid")
    assert parse(made.secret)[1] not in repr(list(admin.list_tokens(include_ended=True)))


def test_a_revoked_token_is_refused_and_stays_in_the_list_of_all(guarded: Guarded) -> None:
    admin = guarded.operator.admin
    made = admin.create_token("reader", spaces=["two"])
    for _ in range(2):  # a second time changes nothing
        assert admin.revoke_token(made.token.id).state == "revoked"
    with pytest.raises(recollect.Unauthenticated, match="was revoked"):
        names(guarded, made.secret)
    assert made.token.id not in {it.id for it in admin.list_tokens()}
    ended = {it.id: it.state for it in admin.list_tokens(include_ended=True)}
    assert ended[made.token.id] == "revoked"
    with pytest.raises(recollect.InvalidArgument, match="is revoked: create another") as refused:
        admin.rotate_token(made.token.id)
    assert [it.field for it in refused.value.violations] == ["token_id"]


def test_pages_repeat_no_token_where_a_line_of_the_ledger_goes_bad_between_them(
    guarded: Guarded,
) -> None:
    admin = guarded.operator.admin
    whole = guarded.ledger.read_bytes()
    page = admin.list_tokens_page(include_ended=True, page_size=2)
    guarded.ledger.write_bytes(b"}" + whole[1:])
    rest = admin.list_tokens_page(
        include_ended=True, page_size=500, page_token=page.next_page_token
    )
    listed = [it.id for it in admin.list_tokens(include_ended=True)]
    guarded.ledger.write_bytes(whole)
    assert [it.id for it in (*page.tokens, *rest.tokens)] == listed


def test_a_rotated_token_and_its_successor_are_valid_together(guarded: Guarded) -> None:
    admin = guarded.operator.admin
    made = admin.create_token("reader", spaces=["two"], limits={"calls": 100})
    rotated = admin.rotate_token(made.token.id, overlap=timedelta(hours=1))
    assert names(guarded, made.secret) == names(guarded, rotated.secret) == ["web"]
    assert (rotated.token.replaces, rotated.token.limits) == (made.token.id, {"calls": 100})
    assert rotated.replaced.expire_time is not None
    assert rotated.replaced.expire_time < datetime.now(UTC) + timedelta(hours=2)


def test_an_administrator_of_a_space_makes_tokens_for_it_alone(guarded: Guarded) -> None:
    admin = guarded.connect("admin", "one").admin
    assert admin.create_token("brain").token.spaces == ("one",)
    for spaces in (["two"], ["one", "two"], [EVERY_SPACE]):
        with pytest.raises(recollect.PermissionDenied, match="the new token would be for the sp"):
            admin.create_token("reader", spaces=spaces)
    foreign = guarded.operator.admin.create_token("reader", spaces=["one", "two"]).token
    for change in (admin.revoke_token, admin.rotate_token):
        with pytest.raises(recollect.NotFound, match=f"there is no token {foreign.id}"):
            change(foreign.id)
    assert foreign.id in {it.id for it in guarded.operator.admin.list_tokens()}


def test_nobody_grants_more_than_its_own_token_has(guarded: Guarded) -> None:
    """Else a token for administration alone could make one that reads, or that never ends."""
    operator = guarded.operator.admin
    reader = operator.create_token("reader", spaces=["one"]).token
    robot = guarded.connect("custom", EVERY_SPACE, scopes=("admin",)).admin
    with pytest.raises(recollect.PermissionDenied, match=r"the scopes .*recall"):
        robot.create_token("reader", spaces=["one"])
    with pytest.raises(recollect.PermissionDenied, match=r"the scopes .*recall"):
        robot.rotate_token(reader.id)  # the answer would have the secret
    end = int(NEXT_YEAR.timestamp() * 1000)
    passing = guarded.connect("admin", "one", expires=end).admin
    for later in (None, NEXT_YEAR + timedelta(seconds=1)):
        with pytest.raises(recollect.PermissionDenied, match="a time after"):
            passing.create_token("reader", expire_time=later)
    assert passing.create_token("reader", expire_time=NEXT_YEAR).token.expire_time == NEXT_YEAR
    channel = guarded.connect("custom", "one", scopes=("admin", "receive"), channel="web").admin
    with pytest.raises(recollect.PermissionDenied, match="other channels"):
        channel.create_token("custom", scopes=["receive"], channel="email")


@each(
    ("fields", "field"),
    [
        ({"kind": "king"}, "kind"),
        ({"kind": "custom"}, "scopes"),
        ({"kind": "reader", "scopes": ["recall"]}, "scopes"),
        ({"kind": "reader", "spaces": ["Not A Space"]}, "spaces"),
        ({"kind": "project"}, "conversation_id"),
        ({"kind": "reader", "channel": "a b"}, "channel"),
        ({"kind": "reader", "limits": {"calls": -1}}, "limits"),
        ({"kind": "reader", "note": "a\nb"}, "note"),
        ({"kind": "reader", "expire_time": datetime(2001, 1, 1, tzinfo=UTC)}, "expire_time"),
    ],
)
def test_a_wrong_token_is_refused_by_the_fields_name(
    fields: dict[str, object], field: str, guarded: Guarded
) -> None:
    admin = guarded.operator.admin
    before = guarded.tokens.all()
    with pytest.raises(recollect.InvalidArgument) as refused:
        admin.create_token(**fields)  # type: ignore[arg-type]
    assert {it.field for it in refused.value.violations} == {field}
    guarded.tokens.refresh()
    assert len(guarded.tokens.all()) == len(before)
