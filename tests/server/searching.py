"""What the tests of searches share: the legs by words, and the marks of a snippet."""

START, END = "\ue000", "\ue001"

LEGS = ["keyword_messages", "keyword_conversations"]


def marked(snippet: str) -> list[str]:
    """The words between the marks."""
    return [part.split(END)[0] for part in snippet.split(START)[1:]]
