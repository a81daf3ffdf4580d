"""Mends the index of a space that is open: what fell behind is caught up, and an index that is lost
is made anew.

Until that is done the service answers from the transcripts what it can, and searches say that they
are degraded.
"""

from collections.abc import Callable
from typing import Any

import structlog

from recollect_server.domain.errors import IndexUnavailable, StorageUnavailable
from recollect_server.services.external.communication_logs import CommunicationLogs
from recollect_server.services.space.conversation_logs import ConversationLogs
from recollect_server.services.space.deletion import (
    bring_up_forgotten,
    finish_delete,
    forget_anchors_again,
)
from recollect_server.services.space.logs import Logs
from recollect_server.services.space.space import Space
from recollect_server.storage.index.checking import Contents
from recollect_server.storage.index.file import remove_files
from recollect_server.storage.index.index import Index
from recollect_server.storage.logs.store import Kind

log = structlog.get_logger("recollect.index")


def repair(space: Space, stopping: Callable[[], bool]) -> bool:
    """Looks at the index and mends what can be mended now. False if something is left to do. Raises
    nothing.
    """
    try:
        if (reason := space.index.lost()) and not _renew(space, reason, stopping):
            return False
        if not space.is_verified and not _compare(space, stopping):
            return False
        for conversation_id in space.lagging():
            if stopping() or not space.catch_up(conversation_id):
                return False
    except (IndexUnavailable, StorageUnavailable, OSError) as error:
        log.warning("index_not_repaired", reason=str(error))
        return False
    return not space.lagging()


def _compare(space: Space, stopping: Callable[[], bool]) -> bool:
    """Compare an index that no server closed with the transcripts. False if it is damaged, or
    something is left to compare.

    Raises IndexUnavailable, StorageUnavailable.
    """
    for conversation_id in space.unverified():
        if stopping():
            return False
        space.verify(conversation_id)
    if space.unverified():
        return False
    problems = Contents(space.index).problems()
    if wrong := problems[0] if problems else space.index.miscount():
        space.distrust(wrong)
        return False
    space.trust()
    log.info("index_compared")
    return True


def _renew(space: Space, reason: str, stopping: Callable[[], bool]) -> bool:
    """Makes the index anew beside the calls that go on. False if the server stops meanwhile: the
    next start makes it.
    """
    old = space.index
    if old.give_up(reason):
        log.error("index_lost", reason=reason)
    remove_files(space.logs.root)
    # Its numbers begin behind those of the old one: a call that still has an old number finds
    # nothing, and nothing wrong.
    new = Index(space.logs.root, numbers_after=old.last_number())
    try:
        new.log.claim_file(copied=False)
        bring_up_forgotten(space.logs, new)
        kinds: tuple[Logs[Any], ...] = (ConversationLogs(space.logs), CommunicationLogs(space.logs))
        for logs in kinds:
            for name, _ in space.logs.logs(logs.kind):
                if stopping():
                    new.want_rebuild("the server stopped while it was made")
                    new.close()
                    return False
                space.build(new, logs, name)
        forget_anchors_again(space.logs, new)
        new.settle()  # what is routed asks it for what it has, and does not wait
        space.change_index(new)
    except BaseException:
        new.close()
        raise
    known = new.conversations.progress()
    log.warning("index_made_anew", conversations=len(known))
    for conversation_id, size in space.logs.logs(Kind.CONVERSATION):
        # written to meanwhile, or the new index refused its lines
        if known.get(conversation_id, (0, 0))[0] != size:
            space.note_lag(conversation_id, "the new index does not have all of it")
    for conversation_id in space.logs.deleted():  # their deletes found no index
        with space.exclusive(conversation=conversation_id):
            finish_delete(space.logs, new, conversation_id, space.clock())
    return True
