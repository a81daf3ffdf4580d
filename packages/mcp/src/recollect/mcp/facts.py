"""The tools for lasting facts about the user: anchors, and the statements of the profile.

A fact is named by the key of its anchor, or by the place of its statement,
`conv-01HQ….SEQUENCE.START`. A statement that is corrected becomes an anchor, whose key is that
place in lower case: messages are never changed. Each change answers the call that undoes it.
"""

from recollect import Anchor, AnchorSource, AsyncClient, ProfileStatement
from recollect._shared.moments import readable
from recollect._shared.plain import time_text
from recollect.mcp import shapes
from recollect.mcp.errors import WrongArgument
from recollect.mcp.tools import time_of

_MOST_CHARACTERS = 1000  # of an anchor's value; a sentence may have more


async def list_facts(client: AsyncClient, request: shapes.ListFacts) -> shapes.Facts:
    """Return facts: anchors by key, then statements in the profile's order. Raises WrongArgument,
    RecollectError.
    """
    as_of = time_of(client, request.as_of, "asOf", ends=True)
    anchors = await client.recall.list_anchors(include_superseded=request.include_past, as_of=as_of)
    profile = await client.recall.get_profile(as_of=as_of)
    every = [*map(_of_anchor, anchors), *map(_of_statement, profile.statements)]
    end = request.offset + request.limit
    continuation = None
    if end < len(every):
        continuation = f'There are {len(every) - end} more: ask again with "offset": {end}.'
    return shapes.Facts(
        facts=every[request.offset : end],
        total=len(every),
        degraded=profile.degraded or None,
        continuation=continuation,
    )


async def remember(client: AsyncClient, request: shapes.Remember) -> shapes.Remembered:
    """Set an anchor. Raises RecollectError."""
    before = await _anchor(client, request.key)
    source = None
    if request.source is not None:
        source = AnchorSource(request.source.conversation_id, request.source.sequence)
    anchor = await client.recall.set_anchor(request.key, request.value, source=source)
    undo: shapes.Undo | None = shapes.Undo.of("forget", fact=anchor.key)
    if before is not None:
        is_same = before.value == anchor.value
        undo = None if is_same else _restored(before.key, before.value, before.source)
    return shapes.Remembered(key=anchor.key, value=anchor.value, undo=undo)


async def correct(client: AsyncClient, request: shapes.Correct) -> shapes.Changed:
    """Replace a fact. Raises WrongArgument, RecollectError."""
    fact = await _fact(client, request.fact)
    if isinstance(fact, Anchor):
        key, before, source = fact.key, fact.value, fact.source
        await client.recall.set_anchor(key, request.value)
    else:
        key, before, source = _place(fact).lower(), fact.text, None
        place = (fact.conversation_id, fact.sequence)
        # First, so that a failure in between leaves one fact too many instead of none.
        await client.recall.set_anchor(key, request.value, source=place)
        await client.recall.remove_profile_statement(*place, fact.start)
        source = AnchorSource(*place)
    undo = _restored(key, before, source)
    return shapes.Changed(fact=key, before=before, after=request.value, undo=undo)


async def forget(client: AsyncClient, request: shapes.Forget) -> shapes.Changed:
    """Remove a fact. Raises WrongArgument, RecollectError."""
    fact = await _fact(client, request.fact)
    if isinstance(fact, Anchor):
        await client.recall.delete_anchor(fact.key)
        undo = _restored(fact.key, fact.value, fact.source)
        return shapes.Changed(fact=fact.key, before=fact.value, after=None, undo=undo)
    place = (fact.conversation_id, fact.sequence)
    await client.recall.remove_profile_statement(*place, fact.start)
    undo = _restored(_place(fact).lower(), fact.text, AnchorSource(*place))
    return shapes.Changed(fact=_place(fact), before=fact.text, after=None, undo=undo)


async def _fact(client: AsyncClient, name: str) -> Anchor | ProfileStatement:
    """Return the fact of a name. Raises WrongArgument if there is none."""
    if name == name.lower():
        fact: Anchor | ProfileStatement | None = await _anchor(client, name)
    else:
        statements = (await client.recall.get_profile()).statements
        fact = next((it for it in statements if _place(it) == name), None)
    if fact is None:
        raise WrongArgument(f"fact: there is none with the name {name}; list_facts has the names")
    return fact


async def _anchor(client: AsyncClient, key: str) -> Anchor | None:
    """Return the anchor that a key has; None if it has none."""
    return next(iter(await client.recall.list_anchors(key)), None)


def _restored(key: str, value: str, source: AnchorSource | None) -> shapes.Undo:
    """Return the call that sets a key to a value that it had."""
    call = shapes.Undo.of("remember", key=key, value=value[:_MOST_CHARACTERS])
    if source is not None:
        call.arguments["source"] = _source(source).model_dump(by_alias=True)
    return call


def _place(it: ProfileStatement) -> str:
    return f"{it.conversation_id}.{it.sequence}.{it.start}"


def _of_anchor(it: Anchor) -> shapes.Fact:
    return shapes.Fact(
        fact=it.key,
        text=it.value,
        kind="fact",
        since=time_text(it.create_time),
        when=readable(it.create_time),
        until=time_text(it.superseded_time) if it.superseded_time else None,
        source=_source(it.source) if it.source else None,
    )


def _of_statement(it: ProfileStatement) -> shapes.Fact:
    return shapes.Fact(
        fact=_place(it),
        text=it.text,
        kind=it.kind.value,
        since=time_text(it.time),
        when=readable(it.time),
        until=None,
        source=_source(it),
    )


def _source(it: AnchorSource | ProfileStatement) -> shapes.FactSource:
    return shapes.FactSource(conversation_id=it.conversation_id, sequence=it.sequence)
