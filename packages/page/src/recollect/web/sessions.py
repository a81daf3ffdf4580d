"""Sessions of browsers: keys that open one, cookies that prove one, tokens that each holds."""

import hashlib
import hmac
import os
import secrets
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_MAX_SESSIONS = 64
"""Browsers that are signed in at the same time; the one that was used least recently gives way."""
_MAX_KEYS = 4
"""Keys that are open at the same time."""
_MAX_ENDED = 4096
"""Cookies of people who signed out that are remembered."""
_KEY_BYTES = 32
_LONGEST = 30 * 24 * 3600
"""Seconds for which a cookie opens a session again after a restart."""


class SessionKey:
    """The key that signs cookies: a browser stays signed in while the page's server restarts.

    It is in a file that its owner alone can read, one for each port. Without such a file the key
    is new with each start, and a restart ends every session. Beside it is a file of the cookies of
    people who signed out.
    """

    def __init__(self, key: bytes, ended: Path | None = None) -> None:
        self._key = key
        self._ended = ended

    @classmethod
    def new(cls) -> "SessionKey":
        """Return a key that no file has."""
        return cls(secrets.token_bytes(_KEY_BYTES))

    @classmethod
    def of(cls, name: str) -> "SessionKey":
        """Return the key of a port or of an address, from its file; a new one where there is
        none.
        """
        folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
        path = folder / "recollect" / f"web-{name}.key"
        ended = path.with_name(f"{path.name}.ended")
        try:
            key = cls(_read(path) or _write(path), ended)
            try:
                key.ended()
            except ValueError:  # nobody knows who signed out: everybody signs in anew
                key = cls(_write(path), ended)
                ended.unlink()
        except OSError:
            return cls.new()
        return key

    def ended(self) -> list[bytes]:
        """Return the hashes of cookies that people signed out of, oldest first. Raises OSError,
        ValueError.
        """
        try:
            lines = self._ended.read_text("ascii").split() if self._ended else []
        except FileNotFoundError:
            return []
        return [bytes.fromhex(it) for it in lines]

    def keep_ended(self, hashes: Iterable[bytes]) -> None:
        """Write the hashes of cookies that people signed out of, for the next start. Raises
        OSError.
        """
        if self._ended is not None:
            _replace(self._ended, "".join(f"{it.hex()}\n" for it in hashes).encode("ascii"))

    def sign(self, person: str) -> str:
        """Return a new cookie for a person; an empty name stands for the holder of
        the printed address.
        """
        content = f"{secrets.token_urlsafe(32)}.{int(time.time())}"
        return f"{content}.{self._signature(content, person)}"

    def admits(self, cookie: str, person: str) -> bool:
        """Return whether a cookie is one of this key, of that person, and not too old."""
        content, _, signature = cookie.rpartition(".")
        start = content.rpartition(".")[2]
        if not hmac.compare_digest(_hash(signature), _hash(self._signature(content, person))):
            return False
        return start.isdecimal() and int(start) + _LONGEST > time.time()

    def _signature(self, content: str, person: str) -> str:
        data = f"{content}\0{person}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, data, hashlib.sha256).hexdigest()


def _read(path: Path) -> bytes:
    """Return the key in a file that nobody else can read or has written; empty without one."""
    try:
        status = path.lstat()
        key = path.read_bytes()
    except FileNotFoundError:
        return b""
    is_own = status.st_uid == os.getuid() and not status.st_mode & 0o077
    return key if is_own and len(key) == _KEY_BYTES else b""


def _write(path: Path) -> bytes:
    key = secrets.token_bytes(_KEY_BYTES)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _replace(path, key)
    return key


def _replace(path: Path, content: bytes) -> None:
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with open(new, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


@dataclass(slots=True)
class Session:
    """One browser that presented a key, or whose person a proxy named."""

    person: str = ""
    token: str | None = None
    """The token that the person signed in with. It is in this process's memory alone."""


class Sessions:
    """The browsers that may call. Their tokens are in memory alone: a restart ends those."""

    def __init__(self, key: SessionKey) -> None:
        self._key = key
        self._lock = threading.Lock()
        self._keys: list[bytes] = []
        self._sessions: dict[bytes, Session] = {}
        self._ended = dict.fromkeys(key.ended())

    def new_key(self) -> str:
        """Return a key that opens one session, once."""
        key = secrets.token_urlsafe(32)
        with self._lock:
            self._keys = [*self._keys, _hash(key)][-_MAX_KEYS:]
        return key

    def exchange(self, key: str) -> str | None:
        """Return the cookie of a new session, or None if the key is wrong or was used."""
        hashed = _hash(key)
        with self._lock:
            # Of equal length and hashed first: how long the comparison takes tells nothing.
            if hashed not in self._keys:
                return None
            self._keys.remove(hashed)
        return self.begin()

    def begin(self, person: str = "") -> str:
        """Return the cookie of a new session."""
        cookie = self._key.sign(person)
        with self._lock:
            self._keep(_hash(cookie), Session(person))
        return cookie

    def end(self, cookie: str) -> None:
        """Let a cookie open nothing any more, also after a restart. Raises OSError where only that
        is not certain.
        """
        hashed = _hash(cookie)
        with self._lock:
            self._sessions.pop(hashed, None)
            self._read_ended()
            self._ended[hashed] = None
            while len(self._ended) > _MAX_ENDED:
                del self._ended[next(iter(self._ended))]
            self._key.keep_ended(self._ended)

    def find(self, cookie: str | None, person: str = "") -> Session | None:
        """Return the session of a cookie, None if there is none of this person."""
        if not cookie:
            return None
        hashed = _hash(cookie)
        with self._lock:
            session = self._sessions.pop(hashed, None)
            if session is None and self._key.admits(cookie, person):  # of before a restart
                self._read_ended()
                session = None if hashed in self._ended else Session(person)
            if session is not None:
                self._keep(hashed, session)  # now the last to give way
        return session if session is not None and session.person == person else None

    def _read_ended(self) -> None:
        """Take in which cookies another process ended, too."""
        with suppress(OSError, ValueError):
            self._ended = dict.fromkeys(self._key.ended()) | self._ended

    def _keep(self, hashed: bytes, session: Session) -> None:
        while len(self._sessions) >= _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[hashed] = session


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
