"""Fits a context that is built into its limits: the bytes of an answer, and the tokens of its text.
Candidates were charged about what they take; where that was too little, what is least wanted goes.
"""

from dataclasses import replace

from recollect_server.context.context import Context, Dropped, Packed, Unit, cost
from recollect_server.context.rendering.form import Form
from recollect_server.kernel.domain.message import estimate_tokens, message_bytes


def within_bytes(context: Context, max_bytes: int) -> Context:
    """Return the context, cut to so many bytes. The newest message always stays.

    Cold messages go first, the least relevant before others, then turns of the conversation itself,
    the oldest first, and of the newest turn its oldest messages. Each message counts twice, for it
    stands in what is rendered too.
    """
    sizes = {
        it.place: 2 * message_bytes(it.message) for packed in context.tiers for it in packed.packed
    }
    total = sum(sizes.values()) + 2 * len(context.summary.encode())
    if total <= max_bytes:
        return context
    removed: set[tuple[str, int]] = set()
    for unit in _least_wanted(context):
        if total <= max_bytes:
            break
        total -= sum(sizes[it.place] for it in unit)
        removed |= {it.place for it in unit}
    return replace(
        _without(context, removed, f"the answer would have more than {max_bytes} bytes"),
        has_more=True,
    )


def rendered_within(context: Context, form: Form, message: str, total: int) -> Context:
    """Return the context with its text, which takes at most `total` tokens, or those of the message
    to be answered if it takes more alone.

    What each part was charged makes the text fit; where that was too little, what is least
    wanted goes: recalled messages, the last conversation, what the group wrote, the oldest turns,
    anchors, the profile, and last the summary.
    """
    allowed = max(total, form.answer(message))
    charged = sum(packed.used for packed in context.tiers) + sum(map(form.anchor, context.anchors))
    charged += sum(map(form.statement, context.profile))
    charged += sum(map(form.group_message, context.group))

    def shown(it: Context) -> Context:
        text = form.render(it.in_zone(), message)
        return replace(
            it, rendered=text, rendered_tokens=estimate_tokens(text) if form.has_text else charged
        )

    context = shown(context)
    if not form.has_text or context.rendered_tokens <= allowed:
        return context
    reason = f"the text would have more than {allowed} tokens"
    units = iter(_least_wanted(context))
    while context.rendered_tokens > allowed:
        if not context.cold.packed and context.last:
            context = shown(replace(context, last=None))
        elif not context.cold.packed and context.group:
            context = shown(replace(context, group=context.group[1:]))
        elif unit := next(units, None):
            going, excess = (
                {it.place for it in unit},
                context.rendered_tokens - allowed - cost(unit),
            )
            while (
                excess > 0 and len(going) < len(context.cold.packed) and (unit := next(units, None))
            ):
                going |= {it.place for it in unit}
                excess -= cost(unit)
            context = shown(_without(context, going, reason))
        elif context.anchors:
            least = min(context.anchors, key=lambda it: it.confidence)
            context = shown(
                replace(context, anchors=[it for it in context.anchors if it is not least])
            )
        elif context.profile:
            left_out = context.profile_left_out + 1
            context = shown(
                replace(context, profile=context.profile[:-1], profile_left_out=left_out)
            )
        elif context.summary:
            context = shown(replace(context, summary=""))
        elif own_turn := context.own_units():
            context = shown(_without(context, {it.place for it in own_turn[0]}, reason))
        else:
            return context
    return context


def named_once(context: Context) -> Context:
    """Return the context, which names nothing as left out that it shows, and nothing twice: a
    message that the warm tier has no room for may be recalled, or scored too low for that.
    """
    named = {it.place for packed in context.tiers for it in packed.packed}
    tiers: list[Packed] = []
    for packed in context.tiers:
        dropped: list[Dropped] = []
        for it in packed.dropped:
            if (place := (it.conversation_id, it.sequence)) not in named:
                named.add(place)
                dropped.append(it)
        tiers.append(replace(packed, dropped=dropped))
    hot, warm, cold = tiers
    return replace(context, hot=hot, warm=warm, cold=cold)


def _least_wanted(context: Context) -> list[Unit]:
    """Return what may be left out of a context, the least wanted first: everything but the newest
    message, and what it needs.
    """
    return [*([it] for it in context.cold.packed[::-1]), *context.own_units()[:-1]]


def _without(context: Context, removed: set[tuple[str, int]], reason: str) -> Context:
    """Return the context without these messages."""

    def cut(packed: Packed) -> Packed:
        out = [it for it in packed.packed if it.place in removed]
        dropped = [
            Dropped(it.conversation_id, it.message.sequence, packed.tier, it.tokens, reason)
            for it in out
        ]
        return replace(
            packed,
            packed=[it for it in packed.packed if it.place not in removed],
            dropped=[*dropped, *packed.dropped],
        )

    return replace(context, hot=cut(context.hot), warm=cut(context.warm), cold=cut(context.cold))
