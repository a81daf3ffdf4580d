"""Standing instructions are found by their occasion."""

from recollect import Client, Message

from tests.conftest import Start
from tests.waiting import until

INSTRUCTION = "Always include exact dates when I ask about deadlines."
TALK = [
    f"The final {it} of the report is due soon, said Carol."
    for it in (
        "submission",
        "version",
        "draft",
        "review",
        "print",
        "summary",
        "figure",
        "chapter",
        "page",
    )
]


def test_a_question_of_its_occasion_finds_a_standing_instruction_behind_the_best_hits(
    start_server: Start,
) -> None:
    with Client(start_server(embedder="onnx").target) as client:
        here = client.conversations.create("web", messages=[Message.user(INSTRUCTION)]).id
        for it in TALK:
            client.conversations.create("web", messages=[Message.user(it)])
        until(lambda: not client.recall.search("anything").degraded)
        until(lambda: client.recall.get_profile().statements)
        question = "When is the final submission due?"
        hits = client.recall.search(question).hits
        assert [it.conversation_id for it in hits].index(here) == 4
        statement = client.recall.get_profile().statements[0]
        client.recall.remove_profile_statement(here, statement.sequence, statement.start)
        left_out = [it.conversation_id for it in client.recall.search(question).hits]
        assert here not in left_out[:5]
        other = client.recall.search("What did Carol say of the print?").hits
        assert here not in [it.conversation_id for it in other[:5]]
