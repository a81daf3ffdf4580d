"""Encrypted archives: a tar in one file, of which nothing can be read, changed, cut or exchanged
without its key.

The format:

    magic       8 bytes    `RCLENC1` and a newline
    key id      8 bytes    says which key it is (see `kernel.domain.keys`)
    salt       32 bytes    random
    chunks                 1 MiB of the tar each, but for the last one: AES-256-GCM, with its tag

The key of a file is derived from the key by HKDF-SHA256 with the salt, so no two files share one,
and the nonces can count: 11 bytes with the number of the chunk, and one that is 1 for the last.
Each chunk authenticates the header too. So a chunk that is changed, missing, moved or of another
file, and a file that ends too early, are refused before a byte of the chunk is used.

What it does not hide: that it is a backup, its size, its times, and the id of its key.
"""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

from recollect_server.kernel.domain.keys import EncryptionKey, Keyring
from recollect_server.kernel.log.files import open_transcript, sync_folder

_MAGIC = b"RCLENC1\n"
_ID = 8
_SALT = 32
_HEADER = len(_MAGIC) + _ID + _SALT
_CHUNK = 1 << 20
_TAG = 16
_PART = ".part"  # behind the name of an archive that is not whole yet


class ArchiveError(Exception):
    """An archive cannot be read, or encryption is not installed. The text says why."""


class ArchiveKeyMissing(ArchiveError):
    """The key of an archive is not among those that were given."""


class Content(Protocol):
    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""


class ArchiveWriter:
    """Writes an archive beside its name, and gives it the name when it is whole and durable."""

    def __init__(self, path: Path, key: EncryptionKey) -> None:
        self._path = path
        self._part = path.with_name(path.name + _PART)
        self._part.unlink(missing_ok=True)
        handle = open_transcript(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        self._file = os.fdopen(handle, "wb", buffering=0)
        try:
            self._stream = _Encrypting(self._file, key)
        except BaseException:
            self.discard()
            raise
        import tarfile  # a server that makes no encrypted backup has no need of it

        stream: Any = self._stream  # of a file tarfile uses `write` alone
        self._tar = tarfile.open(fileobj=stream, mode="w|")  # noqa: SIM115 - ended by finish

    def add(self, name: str, size: int, content: Content) -> None:
        """Add a file. Raises OSError, also if the content is shorter than its size."""
        member = self._tar.tarinfo(name)
        member.size, member.mode = size, 0o600
        self._tar.addfile(member, content)

    def finish(self) -> None:
        """Give the archive its name, durably."""
        self._tar.close()
        self._stream.end()
        os.fsync(self._file.fileno())
        self._file.close()
        self._part.rename(self._path)
        sync_folder(self._path.parent)

    def discard(self) -> None:
        """Remove what was written."""
        self._file.close()
        self._part.unlink(missing_ok=True)


def key_id_of(path: Path) -> str:
    """Return the id of the key of an archive. Raises ArchiveError, OSError."""
    with _opened(path) as file:
        return _header(file, path)[len(_MAGIC) : len(_MAGIC) + _ID].hex()


def members(path: Path, keys: Keyring | None) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the name and the content of each file of an archive; the content is read before the
    next is asked for. Names are relative, and stay in the folder that they are put into. Raises
    ArchiveError, NoKey, OSError.
    """
    import tarfile  # see `Archive`

    with _opened(path) as file:
        stream = _Decrypting(file, path, keys)
        try:
            with tarfile.open(fileobj=stream, mode="r|") as tar:
                for member in tar:
                    content = tar.extractfile(member) if member.isreg() else None
                    if content is None or member.issparse():
                        raise ArchiveError(f"{path} has {member.name!r}, which is no file")
                    if not _is_inside(member.name):
                        raise ArchiveError(
                            f"{path} has a file {member.name!r}, which is not in its folder"
                        )
                    if member.offset_data + member.size > stream.size:
                        raise ArchiveError(
                            f"{path} was changed or cut off after it was written (its file"
                            f" {member.name!r} is longer than what is left): take another backup"
                        )
                    yield member.name, content
        except tarfile.TarError as error:
            raise ArchiveError(f"{path} holds no tar: {error}") from error
        while stream.read(_CHUNK):
            pass  # to its last chunk, which must be there


def encrypt_anew(path: Path, keys: Keyring) -> bool:
    """Encrypt an archive with the first of the keys, unless it is. Return whether it was not. It
    stays as old as it was. A kill leaves the old one or the new one. Raises ArchiveError, NoKey,
    OSError.
    """
    if key_id_of(path) == keys.first.id:
        with suppress(FileNotFoundError):
            path.with_name(path.name + _PART).unlink()
        return False
    with _opened(path) as file:
        stream = _Decrypting(file, path, keys)
        part = path.with_name(path.name + _PART)
        part.unlink(missing_ok=True)
        handle = open_transcript(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(handle, "wb", buffering=0) as new:
            try:
                encrypting = _Encrypting(new, keys.first)
                while data := stream.read(_CHUNK):
                    encrypting.write(data)
                encrypting.end()
                old = os.fstat(file.fileno())
                os.utime(handle, ns=(old.st_atime_ns, old.st_mtime_ns))
                os.fsync(handle)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
            # A second command removes the part of the first and writes its own, which is not whole.
            if not part.exists() or not os.path.samestat(part.stat(), os.fstat(handle)):
                raise ArchiveError(f"{path} is encrypted anew by another command: wait for its end")
        part.rename(path)
        sync_folder(path.parent)
    return True


def _is_inside(name: str) -> bool:
    """Return whether the name of a file stays in the folder that it is put into."""
    parts = PurePosixPath(name).parts
    return bool(parts) and ".." not in parts and not name.startswith("/") and "\0" not in name


class _Encrypting:
    """Encrypts what is written, in chunks."""

    def __init__(self, file: IO[bytes], key: EncryptionKey) -> None:
        salt = os.urandom(_SALT)
        self._header = _MAGIC + bytes.fromhex(key.id) + salt
        self._cipher = _cipher(key, salt)
        self._file = file
        self._buffer = bytearray()
        self._count = 0
        _write(file, self._header)

    def write(self, data: bytes) -> int:
        if self._file.closed:
            return len(data)  # a tar that was discarded writes its last block when it is collected
        self._buffer += data
        # The last chunk is known at the end: a full one waits for a byte behind it.
        while len(self._buffer) > _CHUNK:
            self._put(bytes(self._buffer[:_CHUNK]), is_last=False)
            del self._buffer[:_CHUNK]
        return len(data)

    def end(self) -> None:
        self._put(bytes(self._buffer), is_last=True)

    def _put(self, data: bytes, *, is_last: bool) -> None:
        nonce = _nonce(self._count, is_last=is_last)
        self._count += 1
        _write(self._file, self._cipher.encrypt(nonce, data, self._header))


class _Decrypting(io.RawIOBase):
    """Decrypts a file as it is read. Raises ArchiveError for anything that is not as it was
    written.
    """

    def __init__(self, file: IO[bytes], path: Path, keys: Keyring | None) -> None:
        self._header = _header(file, path)
        key_id = self._header[len(_MAGIC) : len(_MAGIC) + _ID].hex()
        if keys is None:
            raise ArchiveKeyMissing(
                f"{path} is encrypted with the key {key_id}: name the file that has it with"
                " --backup-key-file, or set RECOLLECT_BACKUP_KEY"
            )
        key = keys.get(key_id)
        if key is None:
            raise ArchiveKeyMissing(
                f"{path} is encrypted with the key {key_id}, and these keys were given:"
                f" {', '.join(it.id for it in keys)}: add the missing one to the file of keys"
            )
        self._cipher = _cipher(key, self._header[-_SALT:])
        self._file = file
        self._path = path
        self._left = os.fstat(file.fileno()).st_size - _HEADER
        self.size = self._left - _TAG * -(-self._left // (_CHUNK + _TAG))
        """Bytes that it decrypts to."""
        self._count = 0
        self._data = b""
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, as many as asked for unless the end is near; empty at the end."""
        parts = []
        while size:
            if self._at == len(self._data) and not self._next():
                break
            part = self._data[self._at :] if size < 0 else self._data[self._at : self._at + size]
            self._at += len(part)
            size -= len(part) if size > 0 else 0
            parts.append(part)
        return b"".join(parts)

    def _next(self) -> bool:
        if self._left == 0 and self._count:
            return False
        length = min(self._left, _CHUNK + _TAG)
        data = bytearray()
        while len(data) < length and (part := self._file.read(length - len(data))):
            data += part
        self._left -= length
        is_last = self._left == 0
        try:
            self._data = self._cipher.decrypt(
                _nonce(self._count, is_last=is_last), bytes(data), self._header
            )
        except Exception as error:
            if type(error).__name__ not in ("InvalidTag", "ValueError"):
                raise
            offset = _HEADER + self._count * (_CHUNK + _TAG)
            raise ArchiveError(
                f"{self._path} was changed or cut off after it was written (at byte {offset} or"
                " behind): take another backup"
            ) from None
        self._count += 1
        self._at = 0
        return True


def _nonce(count: int, *, is_last: bool) -> bytes:
    return count.to_bytes(11, "big") + bytes([is_last])


def _cipher(key: EncryptionKey, salt: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    except ImportError as error:
        raise ArchiveError(
            "encryption is not installed: pip install 'recollect-server[encryption]'"
        ) from error
    derived = HKDF(algorithm=SHA256(), length=32, salt=salt, info=b"recollect archive 1")
    return AESGCM(derived.derive(key.secret))


def _header(file: IO[bytes], path: Path) -> bytes:
    header = file.read(_HEADER)
    if len(header) < _HEADER or not header.startswith(_MAGIC):
        raise ArchiveError(
            f"{path} is no encrypted backup of this version, or its start is damaged"
        )
    return header


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with os.fdopen(open_transcript(path, os.O_RDONLY), "rb", buffering=0) as file:
        if hasattr(os, "posix_fadvise"):  # from the disk, not from the system's cache
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        yield file


def _write(file: IO[bytes], data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
