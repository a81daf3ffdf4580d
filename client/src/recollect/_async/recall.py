# Generated from proto and scripts/client_methods.toml by scripts/client_methods.py.
"""`client.recall`."""

from collections.abc import AsyncIterator, Iterable
from datetime import datetime

from recollect._async import beyond
from recollect._async.invoker import Invoker
from recollect._shared import calls
from recollect._types.context import (
    Anchor,
    AnchorSource,
    BuiltContext,
    ContextBudget,
    ContextFormat,
    ConversationPart,
    RecallDial,
    TierTransition,
    TierTransitionPage,
    UserProfile,
)
from recollect._types.recall import (
    DateRange,
    FetchedContext,
    RecentOrder,
    SearchAnswer,
    TurnRange,
)
from recollect._types.recent import RecentPage


class Recall:
    """Calls that find conversations and messages again, at `client.recall`.

    In all methods an argument that is `None` is left to the server's default, and `timeout` bounds
    the call in seconds, retries included, instead of the client's own.
    """

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker

    async def search(
        self,
        query: str,
        *,
        limit: int | None = None,
        channel: str | None = None,
        date_range: DateRange | None = None,
        conversation_id: str | None = None,
        topics: Iterable[str] | None = None,
        participants: Iterable[str] | None = None,
        explain: bool = False,
        min_score: float | None = None,
        time_zone: str | None = None,
        moment: bool = False,
        timeout: float | None = None,
    ) -> SearchAnswer:
        """Return the conversations and the messages that answer a question best. Every given filter
        must match.

        `results` of the answer are conversations and `hits` are messages, whatever their
        conversation; each has at most `limit` (10; at most 100), best first. A score, from 0 to 1,
        is the probability that it, or at least one behind it, answers; `min_score`, such as 0.3,
        leaves out the rest. `degraded` names retrievers that could not answer.

        The query is data: no character in it is an operator. A date in it ("last week") makes what
        was said then count more; it is one of `time_zone`, such as "Asia/Tokyo" (the server's).
        `topics` and `participants` match any of those given.

        >>> answer = await client.recall.search("when did the disk fill up?", limit=5)
        >>> for hit in answer.hits:
        ...     print(hit.date, hit.snippet)
        """
        return await self._invoker.run(
            calls.SEARCH(
                query=query,
                limit=limit,
                channel=channel,
                date_range=date_range,
                conversation_id=conversation_id,
                topics=topics,
                participants=participants,
                explain=explain,
                min_score=min_score,
                time_zone=time_zone or self._invoker.time_zone,
                moment=moment,
            ),
            timeout,
        )

    async def fetch_context(
        self,
        conversation_id: str,
        turn_range: TurnRange | tuple[int, int] | None = None,
        *,
        after_sequence: int | None = None,
        timeout: float | None = None,
    ) -> FetchedContext:
        """Return the turns around a search result: those of `turn_range`, both ends included, else
        the last 10.

        Of very long ones it has the first messages, some 8 MiB, and `has_more`: the rest comes with
        the same turns and the last `sequence` as `after_sequence`.

        >>> turns = (max(hit.turn_number - 1, 1), hit.turn_number + 1)
        >>> context = await client.recall.fetch_context(hit.conversation_id, turns)
        """
        return await beyond.fetch_context(
            self._invoker,
            timeout,
            conversation_id=conversation_id,
            turn_range=turn_range,
            after_sequence=after_sequence,
        )

    async def recent(
        self,
        *,
        limit: int | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        channel: str | None = None,
        order: RecentOrder | None = None,
        timeout: float | None = None,
    ) -> RecentPage:
        """Return at most `limit` conversations (10; at most 100) by time, for browsing: updated at
        or after `after` and before `before`, newest first. `has_more` says that the answer would be
        too large with the others.

        >>> for entry in await client.recall.recent(after=datetime.now(UTC) - timedelta(days=7)):
        ...     print(entry.conversation.abbreviation or entry.snippet)
        """
        return await self._invoker.run(
            calls.RECENT(limit=limit, before=before, after=after, channel=channel, order=order),
            timeout,
        )

    async def build_context(
        self,
        conversation_id: str | None = None,
        message: str | None = None,
        *,
        budget: ContextBudget | int | None = None,
        format: ContextFormat | None = None,  # noqa: A002 - the contract says so
        include_group: bool = False,
        explain: bool = False,
        query: str | None = None,
        time_zone: str | None = None,
        sender: str | None = None,
        include: Iterable[ConversationPart] | None = None,
        exclude: Iterable[ConversationPart] | None = None,
        marks: bool = False,
        recall: RecallDial | None = None,
        timeout: float | None = None,
    ) -> BuiltContext:
        """Build the model's input for an answer to `message`, or to the one that the conversation
        ends with: the profile of the user, the newest turns, earlier ones, and what was said
        elsewhere as far as it fits. Without a conversation it is for one that does not exist yet.

        A number as `budget` is the total in tokens (4400), estimated at four bytes each; it bounds
        `rendered`. `format` says what `rendered` is, XML without one; `system_prompt` tells the
        model. `query` is looked for instead of the message. `time_zone` is that of the dates in it
        and in `rendered`, as for `search`. `sender` is who asks, where several people write.
        `include` has turns that come before what is recalled, `exclude` those that are not shown:
        what a memory manager of yours decided. `marks` writes tier, relevance and an anchor's
        source into the XML. `include_group` adds what other members wrote in the conversation's
        group, marked untrusted. `recall` says how much of what was said elsewhere is wanted: `all`,
        the likeliest first, only what is `likely` to help, or `none`. `explain` names in `dropped`
        what would be too unsure for `likely`.

        >>> form = ContextFormat.ANTHROPIC_MESSAGES
        >>> context = await client.recall.build_context(conversation.id, question, format=form)
        >>> messages = json.loads(context.rendered)
        """
        return await self._invoker.run(
            calls.BUILD_CONTEXT(
                conversation_id=conversation_id,
                message=message,
                budget=budget,
                format=format,
                include_group=include_group,
                explain=explain,
                query=query,
                time_zone=time_zone or self._invoker.time_zone,
                sender=sender,
                include=include,
                exclude=exclude,
                marks=marks,
                recall=recall,
            ),
            timeout,
        )

    async def list_anchors(
        self,
        key: str | None = None,
        *,
        include_superseded: bool = False,
        as_of: datetime | None = None,
        timeout: float | None = None,
    ) -> tuple[Anchor, ...]:
        """Return the current anchors by key; on request the superseded ones too, or those that held
        `as_of` a moment.

        >>> for anchor in await client.recall.list_anchors():
        ...     print(anchor.key, anchor.value)
        """
        return await beyond.list_anchors(
            self._invoker, timeout, key=key, include_superseded=include_superseded, as_of=as_of
        )

    async def set_anchor(
        self,
        key: str,
        value: str,
        *,
        confidence: float | None = None,
        source: AnchorSource | tuple[str, int] | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Anchor:
        """Set an anchor: a lasting fact about the user. An earlier value of the key is superseded
        and remembered.

        >>> source = (conversation_id, message.sequence)
        >>> anchor = await client.recall.set_anchor("name", "Alex", source=source)
        """
        return await self._invoker.run(
            calls.SET_ANCHOR(
                key=key, value=value, confidence=confidence, source=source, request_id=request_id
            ),
            timeout,
        )

    async def delete_anchor(
        self,
        key: str,
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> tuple[Anchor, ...]:
        """Delete an anchor with all values that it superseded, for good, and return them.

        >>> forgotten = await client.recall.delete_anchor("name")
        """
        return await self._invoker.run(calls.DELETE_ANCHOR(key=key, request_id=request_id), timeout)

    async def get_profile(
        self,
        *,
        as_of: datetime | None = None,
        timeout: float | None = None,
    ) -> UserProfile:
        """Return the profile: what users said of themselves and how they want to be answered, in
        their own words, each with its place; with `as_of` what was said until then. `degraded` says
        why some may be missing.

        >>> for it in (await client.recall.get_profile()).statements:
        ...     print(it.kind.name, it.text, it.time)
        """
        return await self._invoker.run(calls.GET_PROFILE(as_of=as_of), timeout)

    async def remove_profile_statement(
        self,
        conversation_id: str,
        sequence: int,
        start: int | None = None,
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Leave a statement out of the profile from now on, with the copies of it that forks have;
        the message stays. `sequence` and `start` are those of the statement.

        >>> await client.recall.remove_profile_statement(it.conversation_id, it.sequence, it.start)
        """
        await self._invoker.run(
            calls.REMOVE_PROFILE_STATEMENT(
                conversation_id=conversation_id,
                sequence=sequence,
                start=start,
                request_id=request_id,
            ),
            timeout,
        )

    def list_tier_transitions(
        self,
        conversation_id: str | None = None,
        *,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[TierTransition]:
        """Iterate over the moves of conversations between hot, warm and cold, newest first.
        `timeout` bounds each page.

        >>> async for move in client.recall.list_tier_transitions(conversation.id):
        ...     print(move.from_tier, move.to_tier, move.reason)
        """
        return self._invoker.iterate(
            calls.LIST_TIER_TRANSITIONS(conversation_id=conversation_id, page_size=page_size),
            timeout,
        )

    async def list_tier_transitions_page(
        self,
        conversation_id: str | None = None,
        *,
        page_token: str | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> TierTransitionPage:
        """Return one page of `list_tier_transitions`: the first, or with `page_token` the one after
        another, with the same filters.

        >>> page = await client.recall.list_tier_transitions_page(page_size=20)
        >>> token = page.next_page_token
        >>> page = await client.recall.list_tier_transitions_page(page_size=20, page_token=token)
        """
        return await self._invoker.run(
            calls.LIST_TIER_TRANSITIONS(
                conversation_id=conversation_id, page_size=page_size, page_token=page_token
            ),
            timeout,
        )
