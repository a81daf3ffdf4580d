"""Words of sentences that the server writes."""


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, whose plural ends with an s: "1 message", "2 messages"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
