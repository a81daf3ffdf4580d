"""The ledger of tokens: killed at every write, written by several at once, damaged."""

import fcntl
import os
import signal
import stat
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import structlog
from recollect_server.access.principal import EVERY_SPACE, Unauthenticated
from recollect_server.access.token import new_id, parse, token_text
from recollect_server.access.token_log import TokenLedger
from recollect_server.access.tokens import Tokens
from recollect_server.kernel.domain.errors import InvalidField
from recollect_server.kernel.failpoints import FAILPOINTS
from recollect_server.kernel.log.store import LogUnavailable

from tests.conftest import MovableClock
from tests.credentials.conftest import CONVERSATION, grant, listed, tokens_of, valid
from tests.programs import SERVER, ran
from tests.waiting import until

OF_TOKENS = {point for point in FAILPOINTS if point.startswith("tokens.")}
"""The points that nothing but a change of a token reaches."""
DURABLE = {"tokens.written", "tokens.synced"}
TORN = b'{"type":"token","event":"revok'


@pytest.mark.parametrize("point", sorted(OF_TOKENS))
@pytest.mark.parametrize("is_first", [True, False])
def test_a_command_that_is_killed_creates_a_token_or_none(
    point: str, is_first: bool, tmp_path: Path, clock: MovableClock
) -> None:
    before: list[str] = []
    if not is_first:
        before = [tokens_of(tmp_path, clock).create(grant())[1]]
        with (tmp_path / "tokens.jsonl").open("ab") as file:
            file.write(TORN)
    elif point == "tokens.recovered":
        (tmp_path / "tokens.jsonl").write_bytes(TORN)
    code, output, _ = killed_at(point, tmp_path, "create", "--kind", "reader")
    assert (code, output) == (-signal.SIGKILL, "")
    after = tokens_of(tmp_path, clock)
    made = 1 if point in DURABLE else 0
    assert len(valid(after)) == len(before) + made
    # and it goes on
    before.append(after.create(grant())[1])
    again = tokens_of(tmp_path, clock)
    assert len(valid(again)) == len(before) + made
    assert [again.verify(text).grant.kind for text in before] == ["brain"] * len(before)


@pytest.mark.parametrize("point", sorted(OF_TOKENS - {"tokens.recovered"}))
def test_a_command_that_is_killed_revokes_a_token_or_can_again(
    point: str, tmp_path: Path, clock: MovableClock
) -> None:
    token, _ = tokens_of(tmp_path, clock).create(grant())
    code, output, _ = killed_at(point, tmp_path, "revoke", token.id)
    assert (code, output) == (-signal.SIGKILL, "")
    after = tokens_of(tmp_path, clock)
    assert bool(after.get(token.id).revoked) == (point in DURABLE)
    after.revoke(token.id)
    assert valid(tokens_of(tmp_path, clock)) == []


def killed_at(point: str, data_dir: Path, *arguments: str) -> tuple[int, str, str]:
    """Run a command on tokens that is killed at a failpoint."""
    return ran(
        SERVER,
        ["token", *arguments, "--data-dir", str(data_dir)],
        env=os.environ | {"RECOLLECT_KILL_AT": point},
    )


def test_several_writers_lose_nothing_of_each_other(tmp_path: Path, clock: MovableClock) -> None:
    def work(number: int) -> list[str]:
        mine = tokens_of(tmp_path, clock)
        texts = [mine.create(grant(note=f"{number} {it}"))[1] for it in range(10)]
        mine.revoke(mine.verify(texts[0]).id)
        return texts[1:]

    with ThreadPoolExecutor(6) as pool:
        texts = [text for made in pool.map(work, range(6)) for text in made]
    after = tokens_of(tmp_path, clock)
    assert sorted(after.verify(text).id for text in texts) == sorted(it.id for it in valid(after))
    assert len(after.all()) == 60


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/locks tells who waits for a lock")
def test_a_writer_waits_for_the_line_that_another_one_writes(
    tmp_path: Path, clock: MovableClock
) -> None:
    """Else it would take the line for a torn tail, and cut it off."""
    _, other = tokens_of(tmp_path / "other", clock).create(grant())
    line = (tmp_path / "other" / "tokens.jsonl").read_bytes()
    tokens = tokens_of(tmp_path, clock)
    tokens.create(grant())
    file = tmp_path / "tokens.jsonl"
    with file.open("ab", buffering=0) as handle, ThreadPoolExecutor(1) as pool:
        fcntl.flock(handle, fcntl.LOCK_EX)
        handle.write(line[:50])
        created = pool.submit(tokens.create, grant())
        waits = f":{file.stat().st_ino} 0 EOF"
        until(
            lambda: (
                created.done()
                or any(
                    "->" in it and waits in it
                    for it in Path("/proc/locks").read_text().splitlines()
                )
            )
        )
        handle.write(line[50:])
        fcntl.flock(handle, fcntl.LOCK_UN)
        _, text = created.result()
    after = tokens_of(tmp_path, clock)
    assert after.verify(other)
    assert after.verify(text)


def test_a_line_that_lost_its_newline_alone_is_kept(tmp_path: Path, clock: MovableClock) -> None:
    _, text = tokens_of(tmp_path, clock).create(grant())
    file = tmp_path / "tokens.jsonl"
    file.write_bytes(file.read_bytes()[:-1])
    tokens_of(tmp_path, clock).create(grant())
    assert tokens_of(tmp_path, clock).verify(text)


def test_what_was_valid_before_a_damaged_line_is_valid_no_more(
    tmp_path: Path, clock: MovableClock
) -> None:
    """The line may have been a revocation."""
    tokens = tokens_of(tmp_path, clock)
    _, before = tokens.create(grant())
    lost, _ = tokens.create(grant())
    tokens.revoke(lost.id)
    _, behind = tokens.create(grant())
    file = tmp_path / "tokens.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(
        b"".join((lines[0], lines[1], lines[2].replace(b"revoked", b"xevoked"), lines[3]))
    )
    after = tokens_of(tmp_path, clock)
    assert after.verify(behind)
    with pytest.raises(Unauthenticated, match="revoked"):
        after.verify(before)
    assert after.get(lost.id).revoked


def test_a_ledger_whose_only_line_is_damaged_still_asks_for_tokens(
    tmp_path: Path, clock: MovableClock
) -> None:
    tokens_of(tmp_path, clock).create(grant())
    file = tmp_path / "tokens.jsonl"
    file.write_bytes(b"x" + file.read_bytes()[1:])
    assert tokens_of(tmp_path, clock).any()


def test_tokens_that_are_all_revoked_open_nothing(tokens: Tokens) -> None:
    assert not tokens.any()
    tokens.revoke(tokens.create(grant())[0].id)
    assert tokens.any()


def test_a_ledger_that_is_removed_opens_nothing(
    tokens: Tokens, tmp_path: Path, clock: MovableClock
) -> None:
    _, text = tokens.create(grant())
    (tmp_path / "data" / "tokens.jsonl").unlink()
    assert tokens.refresh()
    assert tokens.any()
    with pytest.raises(Unauthenticated):
        tokens.verify(text)


def test_a_ledger_that_cannot_be_read_leaves_the_tokens_as_they_are(
    tokens: Tokens, tmp_path: Path
) -> None:
    _, text = tokens.create(grant())
    file = tmp_path / "data" / "tokens.jsonl"
    file.unlink()
    file.mkdir()
    with structlog.testing.capture_logs() as logs:
        assert [tokens.refresh() for _ in range(3)] == [False] * 3
    assert [line["event"] for line in logs] == ["tokens_not_read"]  # once
    assert tokens.verify(text)
    with pytest.raises(LogUnavailable, match="the ledger of tokens cannot be written"):
        tokens.create(grant())


def test_another_writers_change_counts_after_a_refresh(
    tokens: Tokens, tmp_path: Path, clock: MovableClock
) -> None:
    other = tokens_of(tmp_path / "data", clock)
    token, text = other.create(grant())
    assert tokens.refresh()
    assert not tokens.refresh()
    assert tokens.verify(text) == token
    other.revoke(token.id)
    assert tokens.refresh()
    with pytest.raises(Unauthenticated, match="revoked"):
        tokens.verify(text)


class _SlowLedger(TokenLedger):
    """A ledger whose lines come when they are let through."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.reads = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def raw(self) -> list[bytes]:
        self.reads.set()
        assert self.may_go_on.wait(30)
        return super().raw()


def test_a_new_token_is_valid_while_another_thread_reads_it_from_the_ledger(
    tmp_path: Path, clock: MovableClock
) -> None:
    ledger = _SlowLedger(tmp_path)
    tokens = Tokens(ledger, clock)
    token, text = tokens_of(tmp_path, clock).create(grant("reader"))
    ledger.reads.clear()
    ledger.may_go_on.clear()
    with ThreadPoolExecutor(1) as callers:
        follower = threading.Thread(target=tokens.refresh)
        follower.start()
        assert ledger.reads.wait(30)
        verified = callers.submit(tokens.verify, text)

        def waits() -> bool:
            innermost = sys._current_frames().values()
            return any(it.f_code.co_name == "refresh" for it in innermost)

        try:
            until(waits)  # the caller has seen no such token, and waits for the follower
        finally:
            ledger.may_go_on.set()
        follower.join()
        assert verified.result(30).id == token.id


def test_the_file_is_its_owners_alone_and_holds_no_secret(tokens: Tokens, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        _, text = tokens.create(grant())
    finally:
        os.umask(before)
    file = tmp_path / "data" / "tokens.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    tokens.create(grant())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert text[17:60] not in file.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to others")
def test_a_file_that_root_writes_belongs_to_the_owner_of_its_folder(
    tokens: Tokens, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    os.chown(folder, 1234, 5678)
    tokens.create(grant())
    status = (folder / "tokens.jsonl").stat()
    assert (status.st_uid, status.st_gid) == (1234, 5678)


def test_a_token_comes_back_with_everything_that_was_granted(
    tokens: Tokens, tmp_path: Path, clock: MovableClock
) -> None:
    granted = [
        grant("brain", "alex", "beth", expires=clock.now + 1000, note="a note", limits={"x": 1.5}),
        grant("project", conversation_id=CONVERSATION, channel="web"),
        grant("custom", EVERY_SPACE, scopes=("recall", "receive")),
        grant("gateway", channel="whatsapp"),
    ]
    made = [tokens.create(it) for it in granted]
    after = tokens_of(tmp_path / "data", clock)
    assert [after.verify(text) for _, text in made] == [token for token, _ in made]
    assert [it.grant for it in after.all()] == granted
    assert [it["kind"] for it in listed(tmp_path / "data")] == [it.kind for it in granted]


def test_a_token_is_valid_until_the_moment_of_its_end(tokens: Tokens, clock: MovableClock) -> None:
    _, text = tokens.create(grant(expires=clock.now + 1000))
    clock.move(999)
    assert tokens.verify(text)
    clock.move(1)
    with pytest.raises(Unauthenticated, match="expired at 2026"):
        tokens.verify(text)


def test_both_tokens_of_a_rotation_are_valid_until_the_old_one_ends(
    tokens: Tokens, clock: MovableClock
) -> None:
    old, before = tokens.create(grant(expires=clock.now + 10_000, note="mine"))
    clock.move(5000)
    new, behind = tokens.rotate(old.id, 0, 2000)
    assert (new.replaces, new.grant.note, new.grant.expires) == (old.id, "mine", clock.now + 10_000)
    assert tokens.verify(before)
    assert tokens.verify(behind)
    clock.move(2000)
    with pytest.raises(Unauthenticated, match="expired"):
        tokens.verify(before)
    assert tokens.verify(behind)
    with pytest.raises(InvalidField, match="is expired"):
        tokens.rotate(old.id, 0, 2000)


def test_a_rotation_never_lengthens_the_life_of_the_old_token(
    tokens: Tokens, clock: MovableClock
) -> None:
    old, before = tokens.create(grant(expires=clock.now + 1000))
    tokens.rotate(old.id, 0, 1_000_000)
    clock.move(1000)
    with pytest.raises(Unauthenticated):
        tokens.verify(before)


def test_a_wrong_secret_and_an_unknown_id_are_answered_alike(tokens: Tokens) -> None:
    _, first = tokens.create(grant())
    _, second = tokens.create(grant())
    texts = [
        token_text(parse(first)[0], parse(second)[1]),
        token_text(new_id(), parse(second)[1]),
    ]
    answers = set()
    for text in texts:
        with pytest.raises(Unauthenticated) as raised:
            tokens.verify(text)
        answers.add(str(raised.value))
    assert len(answers) == 1
