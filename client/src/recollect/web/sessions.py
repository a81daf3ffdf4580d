"""Sessions of browsers: keys that open one, cookies that prove one, tokens that each holds."""

import hashlib
import secrets
import threading
from dataclasses import dataclass

_MAX_SESSIONS = 64
"""Browsers that are signed in at the same time; the one that was used least recently gives way."""
_MAX_KEYS = 4
"""Keys that are open at the same time."""


@dataclass(slots=True)
class Session:
    """One browser that presented a key."""

    token: str | None = None
    """The token that the person signed in with. It is in this process's memory alone."""


class Sessions:
    """The browsers that may call. Nothing of them is on disk: a restart ends every session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: list[bytes] = []
        self._sessions: dict[bytes, Session] = {}

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
            cookie = secrets.token_urlsafe(32)
            while len(self._sessions) >= _MAX_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[_hash(cookie)] = Session()
        return cookie

    def find(self, cookie: str | None) -> Session | None:
        """Return the session of a cookie, None if there is none."""
        if not cookie:
            return None
        hashed = _hash(cookie)
        with self._lock:
            session = self._sessions.pop(hashed, None)
            if session is not None:
                self._sessions[hashed] = session  # now the last to give way
        return session


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
