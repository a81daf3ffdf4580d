"""The calls of RecallService that are about contexts, anchors and tiers."""

from recollect._shared import read_context as read
from recollect._shared.calls import parts
from recollect._shared.fill import fill, invalid
from recollect._shared.rpc import Call, Method
from recollect._types.context import (
    Anchor,
    AnchorSource,
    BuiltContext,
    ContextBudget,
    ContextFormat,
    TierTransitionPage,
)
from recollect.v1 import anchor_pb2, context_pb2
from recollect.v1 import recall_service_pb2 as pb

_SERVICE = pb.DESCRIPTOR.services_by_name["RecallService"]
_BUILD_CONTEXT = Method(_SERVICE, "BuildContext", pb.BuildContextRequest, pb.BuildContextResponse)
_LIST_TRANSITIONS = Method(
    _SERVICE, "ListTierTransitions", pb.ListTierTransitionsRequest, pb.ListTierTransitionsResponse
)
_LIST_ANCHORS = Method(_SERVICE, "ListAnchors", pb.ListAnchorsRequest, pb.ListAnchorsResponse)
_SET_ANCHOR = Method(_SERVICE, "SetAnchor", pb.SetAnchorRequest, pb.SetAnchorResponse)
_DELETE_ANCHOR = Method(_SERVICE, "DeleteAnchor", pb.DeleteAnchorRequest, pb.DeleteAnchorResponse)

_FORMATS = {
    ContextFormat.PARTS: context_pb2.CONTEXT_FORMAT_PARTS,
    ContextFormat.XML: context_pb2.CONTEXT_FORMAT_XML,
    ContextFormat.OPENAI_MESSAGES: context_pb2.CONTEXT_FORMAT_OPENAI_MESSAGES,
    ContextFormat.ANTHROPIC_MESSAGES: context_pb2.CONTEXT_FORMAT_ANTHROPIC_MESSAGES,
    ContextFormat.RECALL_BLOCK: context_pb2.CONTEXT_FORMAT_RECALL_BLOCK,
}


def build_context(
    conversation_id: str,
    message: str | None,
    budget: ContextBudget | int | None,
    form: ContextFormat | None,
    include_group: bool,
    explain: bool,
) -> Call[pb.BuildContextRequest, pb.BuildContextResponse, BuiltContext]:
    """Return the call of BuildContext."""
    if form is not None and form not in _FORMATS:
        raise invalid("format", f"must be one of {', '.join(_FORMATS)}, not {form!r}")
    request = fill(
        pb.BuildContextRequest(),
        conversation_id=conversation_id,
        message=message,
        budget=_budget(ContextBudget(total=budget) if isinstance(budget, int) else budget),
        format=None if form is None else _FORMATS[form],
        include_group=include_group,
        explain=explain,
    )
    return Call(_BUILD_CONTEXT, request, read.built)


def list_tier_transitions(
    conversation_id: str | None, page_size: int | None, page_token: str | None
) -> Call[pb.ListTierTransitionsRequest, pb.ListTierTransitionsResponse, TierTransitionPage]:
    """Return the call of ListTierTransitions for one page."""
    request = fill(
        pb.ListTierTransitionsRequest(),
        conversation_id=conversation_id,
        page_size=page_size,
        page_token=page_token,
    )
    return Call(_LIST_TRANSITIONS, request, read.transition_page)


def list_anchors(
    key: str | None, include_superseded: bool, page_token: str
) -> Call[pb.ListAnchorsRequest, pb.ListAnchorsResponse, tuple[tuple[Anchor, ...], str]]:
    """Return the call of ListAnchors for a page, with the token of the next one."""
    request = fill(
        pb.ListAnchorsRequest(),
        key=key,
        include_superseded=include_superseded,
        page_token=page_token,
    )
    return Call(
        _LIST_ANCHORS, request, lambda it: (tuple(map(read.anchor, it.anchors)), it.next_page_token)
    )


def set_anchor(
    key: str,
    value: str,
    confidence: float | None,
    source: AnchorSource | tuple[str, int] | None,
    request_id: str | None,
) -> Call[pb.SetAnchorRequest, pb.SetAnchorResponse, Anchor]:
    """Return the call of SetAnchor."""
    request = fill(
        pb.SetAnchorRequest(),
        key=key,
        value=value,
        confidence=confidence,
        source=_source(source),
        request_id=parts.request_id(request_id),
    )
    return Call(_SET_ANCHOR, request, lambda response: read.anchor(response.anchor))


def delete_anchor(
    key: str, request_id: str | None
) -> Call[pb.DeleteAnchorRequest, pb.DeleteAnchorResponse, tuple[Anchor, ...]]:
    """Return the call of DeleteAnchor."""
    request = fill(pb.DeleteAnchorRequest(), key=key, request_id=parts.request_id(request_id))
    return Call(_DELETE_ANCHOR, request, lambda response: tuple(map(read.anchor, response.anchors)))


def _budget(it: ContextBudget | None) -> context_pb2.ContextBudget | None:
    if it is None:
        return None
    if not isinstance(it, ContextBudget):
        raise invalid(
            "budget",
            f"must be a recollect.ContextBudget or a number of tokens, not {type(it).__name__}",
        )
    return fill(
        context_pb2.ContextBudget(),
        "budget.",
        hot=it.hot,
        warm=it.warm,
        cold=it.cold,
        total=it.total,
    )


def _source(it: AnchorSource | tuple[str, int] | None) -> anchor_pb2.AnchorSource | None:
    if it is None:
        return None
    try:
        name, sequence = (it.conversation_id, it.sequence) if isinstance(it, AnchorSource) else it
    except (TypeError, ValueError):
        raise invalid(
            "source", "must be a recollect.AnchorSource, or a conversation and a line"
        ) from None
    return fill(anchor_pb2.AnchorSource(), "source.", conversation_id=name, sequence=sequence)
