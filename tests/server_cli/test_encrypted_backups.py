"""Encrypted backups: nothing of them is readable, changed bytes are refused, keys are exchanged, a
missing one is named.
"""

import gc
import io
import os
import re
import subprocess
import tarfile
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies
from recollect import Client, Unavailable
from recollect_server.backup import archive
from recollect_server.backup.folder import BackupFolder
from recollect_server.kernel.domain.keys import EncryptionKey, Keyring, new_key

from tests.conftest import RunningServer, Start
from tests.programs import SERVER, Forked
from tests.server.conftest import Connect, answers
from tests.server_cli.conftest import QUERIES, on, run

CHUNK = 1 << 20
HEADER = 48


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    made = run("backups", "new-key", path)
    assert made.exit_code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert keys_of(path).first.text not in made.output
    return path


def keys_of(path: Path) -> Keyring:
    return Keyring.parse(path.read_text())


def every_byte(folder: Path) -> bytes:
    return b"".join(
        str(path).encode() + (path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    )


def test_an_encrypted_backup_shows_nothing_and_restores_every_byte(
    server: RunningServer,
    filled: list[str],
    start_server: Start,
    connect: Connect,
    tmp_path: Path,
    key_file: Path,
) -> None:
    before = answers(connect(server), QUERIES)
    flags = ("--backup-key-file", key_file)
    key_file.chmod(0o604)
    assert on(server, "backup", tmp_path / "exposed", *flags).stderr == (
        f"Warning: every user of this machine can read the key in {key_file}: chmod o= {key_file}\n"
    )
    key_file.chmod(0o640)
    made = on(server, "backup", tmp_path / "copy", *flags)
    assert (made.exit_code, made.stderr) == (0, "")
    assert made.stdout.startswith("4 conversations, ")
    assert [it.name for it in (tmp_path / "copy").iterdir()] == ["backup.encrypted"]
    data = every_byte(tmp_path / "copy")
    for text in ("zebra", "北京", "butter", "summary", "conv-", "jsonl", "default", filled[0]):
        assert text.encode() not in data, text
    assert (tmp_path / "copy/backup.encrypted").stat().st_mode & 0o777 == 0o600
    new = ("--data-dir", tmp_path / "new")
    assert run("restore", tmp_path / "copy", *new, *flags).exit_code == 0
    assert run("verify", *new).exit_code == 0
    assert not (tmp_path / "new/.restoring").exists()
    for path in server.folder.glob("*.jsonl"):
        assert (
            tmp_path / "new/default/conversations" / path.name
        ).read_bytes() == path.read_bytes()
    assert answers(connect(start_server(data_dir=tmp_path / "new")), QUERIES) == before


def test_a_missing_or_wrong_key_is_named_and_nothing_is_restored(
    server: RunningServer, filled: list[str], tmp_path: Path, key_file: Path
) -> None:
    assert on(server, "backup", tmp_path / "copy", "--backup-key-file", key_file).exit_code == 0
    used = keys_of(key_file).first
    other = new_key()
    new = ("--data-dir", tmp_path / "new")
    without = run("restore", tmp_path / "copy", *new)
    assert without.exit_code == 1
    assert f"is encrypted with the key {used.id}: name the file that has it" in without.stderr
    wrong = run("restore", tmp_path / "copy", *new, env={"RECOLLECT_BACKUP_KEY": other.text})
    assert wrong.exit_code == 1
    assert f"the key {used.id}, and these keys were given: {other.id}" in wrong.stderr
    assert not list((tmp_path / "new").rglob("*.jsonl"))
    right = {"RECOLLECT_BACKUP_KEY": f"{other.text} {used.text}"}
    both = run("restore", tmp_path / "copy", *new, "--backup-key-file", key_file, env=right)
    assert "put all keys in one of them" in both.stderr
    assert run("restore", tmp_path / "copy", *new, env=right).exit_code == 0
    assert used.text not in without.output + wrong.output + both.output
    assert other.text not in run("config", env=right).output


@pytest.mark.parametrize("text", ["", "rck_short", "secret", "rck_" + "a" * 43 + "\nsecret"])
def test_a_file_without_keys_is_refused_without_a_word_of_it(
    server: RunningServer, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    result = on(server, "backup", tmp_path / "copy", "--backup-key-file", path)
    assert result.exit_code == 1
    assert "`recollect-server backups new-key FILE` makes one" in result.stderr
    assert "secret" not in result.output
    assert not list((tmp_path / "copy").glob("*"))


def write(path: Path, key: EncryptionKey, size: int) -> bytes:
    content = os.urandom(size)
    writer = archive.ArchiveWriter(path, key)
    writer.add("file", size, io.BytesIO(content))
    writer.finish()
    return content


def read(path: Path, key: EncryptionKey) -> bytes:
    return b"".join(content.read() for _, content in archive.members(path, Keyring((key,))))


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1024, CHUNK, 2 * CHUNK + 5])
def test_an_archive_gives_back_what_was_put_in(tmp_path: Path, size: int) -> None:
    key = new_key()
    assert write(tmp_path / "a", key, size) == read(tmp_path / "a", key)
    again = tmp_path / "b"
    write(again, key, size)
    assert again.read_bytes()[HEADER:] != (tmp_path / "a").read_bytes()[HEADER:]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, EncryptionKey, bytes]:
    """Return the path, the key and the bytes of an archive of three chunks."""
    path, key = tmp_path_factory.mktemp("archive") / "a", new_key()
    write(path, key, 2 * CHUNK + 5)
    return path, key, path.read_bytes()


@hypothesis.given(place=strategies.floats(0, 1, exclude_max=True), bit=strategies.integers(0, 7))
def test_a_changed_bit_anywhere_is_refused(
    written: tuple[Path, EncryptionKey, bytes], place: float, bit: int
) -> None:
    path, key, data = written
    changed = bytearray(data)
    changed[int(place**3 * len(data))] ^= 1 << bit  # the header more often than its share
    path.write_bytes(changed)
    with pytest.raises(archive.ArchiveError):
        read(path, key)


def test_chunks_that_are_missing_moved_or_of_another_archive_are_refused(
    written: tuple[Path, EncryptionKey, bytes],
) -> None:
    path, key, data = written
    step = CHUNK + 16
    chunks = [data[at : at + step] for at in range(HEADER, len(data), step)]
    other = path.with_name("other")
    write(other, key, 2 * CHUNK + 5)
    foreign = other.read_bytes()
    for changed in (
        [chunks[0]],
        chunks[:2],
        [chunks[1], chunks[0], chunks[2]],
        [chunks[0], chunks[2]],
        [*chunks, chunks[2]],
        [*chunks, b"x"],
        [foreign[HEADER : HEADER + step], *chunks[1:]],
        [],
    ):
        path.write_bytes(data[:HEADER] + b"".join(changed))
        with pytest.raises(archive.ArchiveError, match="was changed or cut off"):
            read(path, key)


def member(name: str, *, size: int = 1, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Return a file of a tar, of one byte whatever its size says."""
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, "/etc/passwd"
    return info.tobuf(tarfile.PAX_FORMAT) + b"x".ljust(tarfile.BLOCKSIZE, b"\0")


@pytest.mark.parametrize(
    ("tar", "reason"),
    [
        (member("../outside"), "a file '../outside', which is not in its folder"),
        (member("/outside"), "a file '/outside', which is not in its folder"),
        (member("."), "a file '.', which is not in its folder"),
        (member("link", kind=tarfile.SYMTYPE), "has 'link', which is no file"),
        (member("hard", kind=tarfile.LNKTYPE), "has 'hard', which is no file"),
        (member("folder", kind=tarfile.DIRTYPE), "has 'folder', which is no file"),
        (member("pipe", kind=tarfile.FIFOTYPE), "has 'pipe', which is no file"),
        (
            member("good") + member("lies", size=1 << 40),
            "(its file 'lies' is longer than what is left)",
        ),
    ],
)
def test_a_hostile_archive_with_the_right_key_is_refused_in_one_sentence(
    tmp_path: Path, key_file: Path, tar: bytes, reason: str
) -> None:
    backup = tmp_path / "backups/recollect-20260101t030000z"
    backup.mkdir(parents=True)
    with (backup / "backup.encrypted").open("wb", buffering=0) as file:
        encrypting = archive._Encrypting(file, keys_of(key_file).first)
        encrypting.write(tar)
        encrypting.end()
    flags = ("--backup-key-file", key_file)
    restored = run("restore", backup, "--data-dir", tmp_path / "new", *flags)
    assert (restored.exit_code, reason in restored.stderr) == (1, True)
    verified = run("backups", "verify", "--backup-dir", backup.parent, *flags)
    assert (verified.exit_code, reason in verified.stdout) == (1, True)
    assert not (tmp_path / "new/.restoring").exists()
    assert not list(tmp_path.rglob("outside"))


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_an_archive_that_the_disk_has_no_room_for_leaves_nothing(
    tmp_path: Path, small_disk: None
) -> None:
    writer = archive.ArchiveWriter(tmp_path / "a", new_key())
    with pytest.raises(OSError, match="File too large"):
        writer.add("file", 4 * CHUNK, io.BytesIO(bytes(4 * CHUNK)))
    writer.discard()
    del writer
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_rekeying_that_fails_leaves_the_archive_as_it_was_and_no_part(
    written: tuple[Path, EncryptionKey, bytes], request: pytest.FixtureRequest
) -> None:
    path, key, data = written
    keys = Keyring((new_key(), key))
    path.write_bytes(data[:-1])
    with pytest.raises(archive.ArchiveError, match="was changed or cut off"):
        archive.encrypt_anew(path, keys)
    assert not path.with_name("a.part").exists()
    path.write_bytes(data)
    request.getfixturevalue("small_disk")
    with pytest.raises(OSError, match="File too large"):
        archive.encrypt_anew(path, keys)
    assert not path.with_name("a.part").exists()
    assert path.read_bytes() == data


def test_rekeying_names_a_damaged_backup_and_goes_on_with_the_others(
    tmp_path: Path, key_file: Path
) -> None:
    folder, old = tmp_path / "backups", keys_of(key_file).first
    paths = [folder / f"recollect-2026010{day}t030000z/backup.encrypted" for day in range(1, 5)]
    for path, key in zip(paths, (old, old, new_key(), old), strict=True):
        path.parent.mkdir(parents=True)
        write(path, key, 5)
    paths[1].write_bytes(b"?" + paths[1].read_bytes()[1:])
    paths[3].write_bytes(paths[3].read_bytes()[:-1])
    damaged = paths[3].read_bytes()
    assert run("backups", "new-key", key_file).exit_code == 0
    done = run("backups", "rekey", "--backup-dir", folder, "--backup-key-file", key_file)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[:2] == [
        f"encrypted anew {paths[0].parent}",
        "1 backup encrypted anew, 3 problems",
    ]
    for line, path, reason in zip(
        lines[2:],
        reversed(paths[1:]),
        ("was changed or cut off", "and these keys were given", "or its start is damaged"),
        strict=True,
    ):
        assert line.startswith(str(path))
        assert reason in line
    assert archive.key_id_of(paths[0]) == keys_of(key_file).first.id
    assert paths[3].read_bytes() == damaged


def test_rekeying_reaches_backups_with_names_of_their_own_and_those_of_some_spaces(
    server: RunningServer, filled: list[str], tmp_path: Path, key_file: Path
) -> None:
    folder = tmp_path / "backups"
    flags = ("--backup-dir", folder, "--backup-key-file", key_file)
    named = folder / "before the move"
    for chosen in (("--space", "default"), (named,)):
        assert on(server, "backup", *chosen, *flags).exit_code == 0
    times = {it.path: it.time for it in BackupFolder(folder).listed()}
    assert len(times) == 2
    assert BackupFolder(folder).stored() == []
    assert run("backups", "new-key", key_file).exit_code == 0
    assert run("backups", "rekey", *flags).exit_code == 0
    new = keys_of(key_file).first
    assert {it.path: it.time for it in BackupFolder(folder).listed()} == times
    alone = {"RECOLLECT_BACKUP_KEY": new.text}
    verified = run("backups", "verify", "--backup-dir", folder, env=alone)
    assert (verified.exit_code, verified.stdout.count("good")) == (0, 2)


def test_rekeying_beside_another_one_never_puts_its_half_in_place(
    written: tuple[Path, EncryptionKey, bytes],
) -> None:
    path, key, data = written
    path.write_bytes(data)
    part = path.with_name("a.part")

    class Keys(Keyring):
        """Keys whose use shows another command that has begun since the part was made."""

        @property
        def first(self) -> EncryptionKey:
            if part.exists():
                part.unlink()
                part.write_bytes(b"half")
            return super().first

    with pytest.raises(archive.ArchiveError, match="by another command: wait for its end"):
        archive.encrypt_anew(path, Keys((new_key(), key)))
    assert path.read_bytes() == data
    assert part.read_bytes() == b"half"
    part.unlink()


def test_rekeying_that_is_killed_loses_nothing_and_goes_on(
    server: RunningServer, filled: list[str], tmp_path: Path, key_file: Path
) -> None:
    folder = tmp_path / "backups"
    flags = ("--backup-dir", folder, "--backup-key-file", key_file)
    assert on(server, "backup", *flags).exit_code == 0
    [first] = BackupFolder(folder).stored()
    old = keys_of(key_file).first
    big = (first.path / "backup.encrypted").stat().st_size
    for day in range(10, 22):
        path = folder / f"recollect-202601{day}t030000z"
        path.mkdir()
        write(path / "backup.encrypted", old, 4 * CHUNK)
    assert big < 4 * CHUNK
    assert run("backups", "new-key", key_file).exit_code == 0
    new = keys_of(key_file).first
    assert new.id != old.id
    program = Forked(SERVER, ["backups", "rekey", *map(str, flags)], stdout=subprocess.DEVNULL)
    while not any(it.key_id == new.id for it in BackupFolder(folder).stored()):
        assert program.poll() is None or program.returncode == 0
    program.kill()
    program.wait()
    states = {it.key_id for it in BackupFolder(folder).stored()}
    assert states <= {old.id, new.id}
    done = run("backups", "rekey", *flags)
    assert done.exit_code == 0
    assert {it.key_id for it in BackupFolder(folder).stored()} == {new.id}
    assert not list(folder.rglob("*.part"))
    for it in BackupFolder(folder).stored():
        assert list(archive.members(it.path / "backup.encrypted", Keyring((new,))))
    alone = {"RECOLLECT_BACKUP_KEY": new.text}
    assert (
        run("backups", "verify", first.path.name, "--backup-dir", folder, env=alone).exit_code == 0
    )


def test_nothing_is_removed_without_the_key_that_shows_what_is_good(
    server: RunningServer, filled: list[str], tmp_path: Path, key_file: Path
) -> None:
    folder = tmp_path / "backups"
    assert (
        on(server, "backup", "--backup-dir", folder, "--backup-key-file", key_file).exit_code == 0
    )
    [made] = BackupFolder(folder).stored()
    made.path.rename(folder / "recollect-20260101t030000z")
    older = folder / "recollect-20250101t030000z"
    older.mkdir()
    (older / "backup.encrypted").write_bytes(
        (folder / "recollect-20260101t030000z/backup.encrypted").read_bytes()[:-1]
    )
    prune = ("backups", "prune", "--backup-dir", folder, "--backup-keep", "last=1")
    refused = run(*prune)
    assert refused.exit_code == 1
    assert "is encrypted with the key" in refused.stderr
    assert len(list(folder.iterdir())) == 2
    damaged = run("backups", "verify", "--backup-dir", folder, "--backup-key-file", key_file)
    assert (damaged.exit_code, "changed or cut off" in damaged.stdout) == (1, True)
    listed = run("backups", "list", "--backup-dir", folder).stdout
    assert re.search(r"recollect-20260101t030000z  \(encrypted, key [0-9a-f]{16}\)", listed)
    assert run(*prune, "--backup-key-file", key_file).exit_code == 0
    assert [it.name for it in folder.iterdir()] == ["recollect-20260101t030000z"]


def test_a_call_encrypts_with_the_key_that_is_first_in_the_file_now(
    start_server: Start, tmp_path: Path, key_file: Path
) -> None:
    server = start_server(backup_dir=tmp_path / "backups", backup_key_file=key_file)
    with Client(server.target) as client:
        client.conversations.create("web")
        used = []
        for name in ("one", "two"):
            path = Path(client.admin.backup(name=name).path) / "backup.encrypted"
            used.append(archive.key_id_of(path))
            assert used[-1] == keys_of(key_file).first.id
            run("backups", "new-key", key_file)
        assert used[0] != used[1]
        key_file.write_text("nothing")
        with pytest.raises(Unavailable, match="line 1 is no key"):
            client.admin.backup(name="three")
