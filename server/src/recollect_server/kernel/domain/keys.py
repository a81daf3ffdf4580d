"""Keys for encryption: random, never shown, known by an id that is derived from them."""

import base64
import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

PREFIX = "rck_"
_BYTES = 32


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    """A key. Its id says which one it is, and nothing of what it is."""

    secret: bytes = field(repr=False)
    id: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha256(b"recollect key id" + self.secret).hexdigest()
        object.__setattr__(self, "id", digest[:16])

    @property
    def text(self) -> str:
        return PREFIX + base64.urlsafe_b64encode(self.secret).decode().rstrip("=")


def new_key() -> EncryptionKey:
    """Return a new random key."""
    return EncryptionKey(secrets.token_bytes(_BYTES))


class Keyring:
    """Keys in their order: the first encrypts, all decrypt."""

    def __init__(self, keys: tuple[EncryptionKey, ...]) -> None:
        """There is one key at least."""
        self._keys = keys

    @property
    def first(self) -> EncryptionKey:
        return self._keys[0]

    def get(self, key_id: str) -> EncryptionKey | None:
        """Return the key of an id; None if it is not here."""
        return next((key for key in self._keys if key.id == key_id), None)

    def __iter__(self) -> Iterator[EncryptionKey]:
        return iter(self._keys)

    @classmethod
    def parse(cls, text: str) -> "Keyring":
        """Return the keys of a text: one in each line, `#` begins a comment. Raises ValueError,
        which says nothing of a key.
        """
        keys = []
        for number, line in enumerate(text.splitlines(), 1):
            words = line.partition("#")[0].split()
            for word in words:
                secret = _secret(word)
                if secret is None:
                    raise ValueError(
                        f"line {number} is no key: `recollect-server backups new-key FILE` makes one"
                    )
                keys.append(EncryptionKey(secret))
        if not keys:
            raise ValueError("has no key: `recollect-server backups new-key FILE` makes one")
        return cls(tuple(keys))


def _secret(word: str) -> bytes | None:
    if not word.startswith(PREFIX):
        return None
    try:
        secret = base64.b64decode(word[len(PREFIX) :] + "=", altchars=b"-_", validate=True)
    except ValueError:
        return None
    return secret if len(secret) == _BYTES else None
