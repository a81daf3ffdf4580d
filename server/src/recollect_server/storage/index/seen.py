"""Which request ids may have been seen: a Bloom filter (Bloom 1970), so that a new id needs no question to the database.

Ten bits and four hashes an id: about one new id in eighty is taken for one that may have been seen, and then the database is
asked. An id that was added is never missed.
"""

import threading

_HASHES = 4
_BITS = 10
_LEAST = 1 << 20  # 1.3 MB


class Seen:
    """A set of texts that may say "perhaps" wrongly and never "no" wrongly."""

    def __init__(self, expected: int) -> None:
        """Room for twice as many texts as expected; beyond that "perhaps" grows more frequent, until the next start."""
        self._bits = bytearray(max(_LEAST, 2 * expected) * _BITS // 8 + 1)
        self._guard = threading.Lock()  # guards the bits while they change

    def add(self, text: str) -> None:
        """Adds a text."""
        with self._guard:
            for place in self._places(text):
                self._bits[place >> 3] |= 1 << (place & 7)

    def __contains__(self, text: str) -> bool:
        return all(self._bits[place >> 3] & 1 << (place & 7) for place in self._places(text))

    def _places(self, text: str) -> list[int]:
        # Two halves of one hash make all the others (Kirsch and Mitzenmacher 2006). Python's own is keyed anew in every process.
        value = hash(text)
        first, second = value & 0xFFFFFFFF, (value >> 32 & 0xFFFFFFFF) | 1
        size = len(self._bits) * 8
        return [(first + index * second) % size for index in range(_HASHES)]
