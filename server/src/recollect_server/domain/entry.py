"""Entries: what a line of a log can say. Those of conversations, of external communications and of
threads have nothing in common, so that nothing of a third party can come into a conversation, not
even by a file in the wrong folder: each kind of log passes over the entries of the others.
"""

from dataclasses import dataclass

from recollect_server.domain.checkpoint import ThreadContent
from recollect_server.domain.conversation import Content
from recollect_server.domain.external import ExternalContent


@dataclass(frozen=True, slots=True)
class Unknown:
    """A whole, undamaged line that this version does not know: kept, and passed over."""


AnyContent = Content | ExternalContent | ThreadContent | Unknown
