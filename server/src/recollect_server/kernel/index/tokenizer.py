"""The tokenizer of the index, which is FTS5's own: it cuts a text into words, folds accents and
stems as for English.
"""

import apsw

# marks: vowel signs are letters in Hindi; symbols: emoji
_CATEGORIES = "L* N* Co Mn Mc So"
TOKENIZER = f"porter unicode61 categories '{_CATEGORIES}'"
"""The index's tokenizer, as the statement that makes a table has it."""
_ARGUMENTS = ["unicode61", "categories", _CATEGORIES]

Word = tuple[int, int, str]
"""A word of a text: its first byte in UTF-8, one past its last byte, its stem."""


def tokens(connection: apsw.Connection, text: bytes) -> list[Word]:
    """Return the words of a UTF-8 text in the index's form."""
    tokenizer = connection.fts5_tokenizer("porter", _ARGUMENTS)
    words: list[Word] = tokenizer(text, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)  # type: ignore[assignment]  # apsw's types leave open what its arguments decide
    return words
