"""Mends the index of a space that is open: what fell behind is caught up, and an index that is lost is made anew.

Until that is done the service answers from the transcripts what it can, and searches say that they are degraded.
"""

from collections.abc import Callable
from typing import Any

import structlog

from recollect_server.domain.errors import ConversationNotFound, IndexUnavailable, NothingNamed, StorageUnavailable
from recollect_server.services.deletion import bring_up_forgotten, finish_delete, forget_anchors_again
from recollect_server.services.external.communication_logs import CommunicationLogs
from recollect_server.services.space.logs import Logs
from recollect_server.services.space.space import Space
from recollect_server.storage.index.checking import Contents
from recollect_server.storage.index.file import remove_files
from recollect_server.storage.index.index import Index
from recollect_server.storage.logs.store import Kind

log = structlog.get_logger("recollect.index")


def repair(space: Space, stopping: Callable[[], bool]) -> bool:
    """Looks at the index and mends what can be mended now. False if something is left to do. Raises nothing."""
    try:
        if (reason := space.index.lost()) and not _renew(space, reason, stopping):
            return False
        if space.suspects.reason and not _compare(space, stopping):
            return False
        for conversation_id in space.lag.conversations():
            if stopping():
                return False
            with space.locks.hold(conversation_id):
                # One whose transcript refuses to be written is caught up when it is written to.
                if not space.pending.of(conversation_id) and not _caught_up(space, conversation_id):
                    return False
    except (IndexUnavailable, StorageUnavailable, OSError) as error:
        log.warning("index_not_repaired", reason=str(error))
        return False
    return not space.lag.conversations()


def _compare(space: Space, stopping: Callable[[], bool]) -> bool:
    """Compare an index that no server closed with the transcripts. False if it is damaged, or something is left to compare.

    Raises IndexUnavailable, StorageUnavailable.
    """
    for conversation_id in space.suspects.waiting():
        if stopping():
            return False
        with space.locks.hold(conversation_id):
            if space.pending.of(conversation_id):
                continue  # its end may never have reached the disk
            try:
                space.head(conversation_id)  # reading where it ends compares it
            except (ConversationNotFound, StorageUnavailable):
                space.suspects.clear(conversation_id)
    if space.suspects.waiting():
        return False
    problems = Contents(space.index).problems()
    if wrong := problems[0] if problems else space.index.miscount():
        space.distrust(wrong)
        return False
    space.suspects.end()
    log.info("index_compared")
    return True


def _caught_up(space: Space, conversation_id: str) -> bool:
    """Brings the index up to one conversation. False if it refuses still. Hold the conversation's lock."""
    try:
        done = space.head(conversation_id).indexed
    except ConversationNotFound:
        done = True
    if done:
        space.lag.caught_up(conversation_id)
    return done


def _renew(space: Space, reason: str, stopping: Callable[[], bool]) -> bool:
    """Makes the index anew beside the calls that go on. False if the server stops meanwhile: the next start makes it."""
    old = space.index
    if old.give_up(reason):
        log.error("index_lost", reason=reason)
    remove_files(space.logs.root)
    # Its numbers begin behind those of the old one: a call that still has an old number finds nothing, and nothing wrong.
    new = Index(space.logs.root, numbers_after=old.last_number())
    try:
        new.log.claim_file(copied=False)
        bring_up_forgotten(space.logs, new)
        for logs in (space.transcripts, CommunicationLogs(space.logs)):
            for name, _ in space.logs.logs(logs.kind):
                if stopping():
                    new.want_rebuild("the server stopped while it was made")
                    new.close()
                    return False
                with space.locks.hold(name):
                    _catch_up(space, logs, new, name)
        forget_anchors_again(space.logs, new)
        new.settle()  # what is routed asks it for what it has, and does not wait
        space.change_index(new)
    except BaseException:
        new.close()
        raise
    known = new.conversations.progress()
    log.warning("index_made_anew", conversations=len(known))
    for conversation_id, size in space.logs.logs(Kind.CONVERSATION):
        if known.get(conversation_id, (0, 0))[0] != size:  # written to meanwhile, or the new index refused its lines
            space.lag.note(conversation_id, "the new index does not have all of it")
    for conversation_id in space.logs.deleted():  # their deletes found no index
        with space.locks.hold(conversation_id):
            finish_delete(space.logs, new, conversation_id, space.clock())
    return True


def _catch_up(space: Space, logs: Logs[Any], new: Index, name: str) -> None:
    """Index a log anew. A communication that is written to meanwhile finds no index: who comes next indexes it."""
    if space.pending.of(name):  # the end of its file may be nothing: it is caught up when it is written to
        space.lag.note(name, "its transcript refuses to be written")
        return
    try:
        logs.catch_up(new, name, logs.find(new, name), time=space.clock(), log_updates=False, wait=False)
    except (ConversationNotFound, NothingNamed, StorageUnavailable) as error:
        log.warning("transcript_passed_over", **{logs.noun: name}, reason=str(error))
