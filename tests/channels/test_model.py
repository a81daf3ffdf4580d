"""Any story of messages, repeats, resets, deletes and restarts ends as a model of a few lines
says.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import hypothesis
from hypothesis import strategies as st

from tests.channels.conftest import Post, Reach, Response, home
from tests.conftest import Start
from tests.server.conftest import delete_index

PLACES = ("alex", "sam", "group", "session", "channel", "thread")

Step = tuple[str, int]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["say"] * 6 + ["repeat"] * 3 + ["new"] * 2 + ["delete", "restart", "rebuild"]
        ),
        st.integers(0, 40),
    ),
    min_size=3,
    max_size=25,
)


@dataclass
class Model:
    """Expected state: the conversation of each place, the texts of each, and the outcome of each
    delivery.
    """

    prefix: int
    homes: dict[str, str] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    deliveries: list[tuple[str, str, str]] = field(default_factory=list)
    """Place, text, and the conversation it joined."""

    def deliver(self, post: Post, place: str, text: str, delivery: str) -> Response:
        alex, sam = f"+1000{self.prefix}1", f"+1000{self.prefix}2"
        match place:
            case "alex" | "sam":
                return post.whatsapp(text, alex if place == "alex" else sam, delivery=delivery)
            case "group":
                return post.whatsapp(text, sam, group=f"{self.prefix}@g.us", delivery=delivery)
            case "session":
                return post.cli(text, f"session-{self.prefix}", delivery=delivery)
            case "channel":
                return post.discord(text, "77", channel_id=str(self.prefix), delivery=delivery)
            case _:  # every mail names the first one, which never comes
                name, root = f"<{self.prefix}.{delivery}@x>", f"<{self.prefix}.root@x>"
                return post.mail(
                    text, name, root, sender=f"{self.prefix}@example.org", delivery=delivery
                )

    def own(self, post: Post) -> None:
        for identity in (f"+1000{self.prefix}1", f"+1000{self.prefix}2"):
            post.own("whatsapp", identity)
        post.own("discord", "77")
        post.own("email", f"{self.prefix}@example.org")

    def say(self, post: Post, place: str, text: str) -> None:
        delivery = f"{self.prefix}-{len(self.deliveries)}"
        answer = self.deliver(post, place, text, delivery)
        assert not answer.duplicate
        where = home(answer)
        if text == "/new" and self.texts.get(self.homes.get(place, "")) == []:
            assert where == self.homes[place]  # nothing was said there: it is the new one
        elif text == "/new":
            assert where not in self.texts
            self.texts[where] = []
        elif place in self.homes:
            assert where == self.homes[place]
        else:
            assert where not in self.texts
        self.texts.setdefault(where, [])
        if text != "/new":
            self.texts[where].append(text)
        self.homes[place] = where
        self.deliveries.append((place, text, where))

    def repeat(self, post: Post, which: int) -> None:
        if not self.deliveries:
            return
        which %= len(self.deliveries)
        place, text, where = self.deliveries[which]
        answer = self.deliver(
            post, place, text if text == "/new" else f"{text}, edited", f"{self.prefix}-{which}"
        )
        assert answer.duplicate
        if where in self.texts:
            assert home(answer) == where
        else:
            assert answer.WhichOneof("outcome") is None

    def delete(self, post: Post, place: str) -> None:
        if place in self.homes:
            deleted = self.homes.pop(place)
            post.delete(deleted)
            del self.texts[deleted]
            # what went on in the one that is gone goes back to the one before, if there is one
            if place == "thread":
                before = [
                    where
                    for at, _, where in self.deliveries
                    if at == "thread" and where in self.texts
                ]
                if before:
                    self.homes[place] = before[-1]


@hypothesis.settings(max_examples=25, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(steps=STEPS)
def test_any_story_ends_as_the_model_says(
    start_server: Start, reach: Reach, steps: Sequence[Step]
) -> None:
    server = start_server()
    try:
        post = reach(server)
        model = Model(next(Post.numbers))
        model.own(post)
        for kind, number in steps:
            place = PLACES[number % len(PLACES)]
            match kind:
                case "say":
                    model.say(post, place, f"Message {len(model.deliveries)}")
                case "new":
                    model.say(post, place, "/new")
                case "repeat":
                    model.repeat(post, number)
                case "delete":
                    model.delete(post, place)
                case _:
                    server.stop()
                    if kind == "rebuild":
                        delete_index(server)
                    server = start_server()
                    post = reach(server)
        everything = post.everything()
        assert {name: everything[name] for name in model.texts} == model.texts
        deleted = {where for _, _, where in model.deliveries} - set(model.texts)
        assert not deleted & set(everything)
        for place in PLACES:
            model.say(post, place, "At the end")
        for which in range(len(model.deliveries)):
            model.repeat(post, which)
    finally:
        server.stop()
