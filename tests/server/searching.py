"""The keyword retrievers' names, and the marks of a snippet."""

START, END = "\ue000", "\ue001"

LEGS = ["keyword_messages", "keyword_conversations"]


def marked(snippet: str) -> list[str]:
    """Return the words between the marks."""
    return [part.split(END)[0] for part in snippet.split(START)[1:]]
