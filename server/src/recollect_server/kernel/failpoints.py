"""Failpoints: named places at which a test may kill this process.

A kill is like a power cut or `kill -9`: nothing is tidied up. The environment variable
`RECOLLECT_KILL_AT=name` (or `name:3`, the third time) chooses a failpoint. Without it each costs
a call that returns at once. All are in `FAILPOINTS`, and tests/crash kills each of them.
"""

import itertools
import os
import signal
from collections.abc import Callable

FAILPOINTS = {
    "folder.made": "a folder of the space is there, and not durable yet",
    "create.begun": "a conversation is to begin, and nothing is on the disk",
    "create.file_made": "its transcript is there, and empty",
    "create.half_written": "half of its first line is written",
    "create.written": "its first line is written; the file's name may not be durable",
    "create.synced": "the transcript and its name are durable; the index knows nothing of it",
    "append.begun": "lines are to be added, and nothing of them is on the disk",
    "append.half_written": "half of the lines are written, cut in the middle of one",
    "append.written": "the lines are durable; the index knows nothing of them",
    "index.put": "lines are durable and wait for the index; their caller is not answered",
    "index.taking_in": "the index is to take in what waits; callers were answered",
    "index.taken_in": "the index took in what waited; nothing is acknowledged yet",
    "index.job_done": "a change of the index that a caller waits for is made, and not committed",
    "index.job_committed": "that change is committed; the caller does not know",
    "event.begun": "a title, a model, a summary or an abbreviation is to be recorded",
    "event.recorded": "it is durable; its caller is not answered",
    "anchors.copied": "the file of anchors, or a thread, is to be written anew, and its copy is whole",
    "anchors.replaced": "the copy has the file's name, and that is not durable yet",
    "checkpoints.removed": "records of a thread are removed, durably; their caller is not answered",
    "delete.begun": "a delete is to begin, and the transcript has its name",
    "delete.renamed": "the transcript is renamed, and that is not durable yet",
    "delete.durable": "the rename is durable; the index still has the conversation",
    "delete.forgotten": "what providers delivered into it stands in the ledger; the index does not know",
    "delete.part_removed": "the index took the conversation out, and a part of its messages, or all",
    "delete.words_removed": "the index has nothing of the conversation; its file is there",
    "delete.remembered": "its request is remembered",
    "delete.torn_removed": "what was once cut off the transcript is removed",
    "delete.file_removed": "the transcript is removed, and that is not durable yet",
    "delete.file_gone": "nothing is left of the conversation; its caller is not answered",
    "redact.begun": "a message is to be redacted, and nothing is on the disk",
    "redact.copied": "the transcript without the message's text is there, under another name",
    "redact.kept": "so is the transcript as it was; the names may not be durable",
    "redact.replaced": "the redacted transcript has the name, and that is not durable yet",
    "redact.durable": "that is durable; the index still has the message's words",
    "redact.indexed": "the index has none of its words; vectors and ledgers still have what they had",
    "redact.forgotten": "nothing derived has the text; the old transcript is there",
    "redact.old_removed": "the old transcript is removed, and that is not durable yet",
    "redact.old_gone": "that is durable; nothing is left of the text",
    "redact.log_emptied": "the redaction is done; the caller is not answered",
    "unindex.recorded": "a conversation is unindexed, durably; the index has all of its words",
    "unindex.part": "the index let go of a part of its words",
    "unindex.words_gone": "no search finds a word of it; its vectors are there",
    "reindex.part": "the index has a part of the words of one that goes on",
    "repair.begun": "a torn tail is found, and nothing was done about it",
    "repair.half_kept": "half of the torn tail is kept beside the transcript",
    "repair.kept": "the torn tail is kept, and not cut off yet",
    "repair.cut": "the torn tail is cut off, and that is not durable yet",
    "repair.newline": "a last line that lost its newline has it again, and that is not durable yet",
    "catch_up.repaired": "a transcript's tail is whole, and the index was not brought up to it",
    "catch_up.part": "a part of a transcript is on its way into the index",
    "external.recorded": "a third party's message, or an event, is durable; the index knows nothing of it",
    "external.indexed": "the index knows it; its caller is not answered",
    "external.repaired": "a third party's transcript has a whole tail, and the index was not brought up to it",
    "external.part": "a part of a third party's transcript is in the index",
    "tokens.begun": "a token is to be created or revoked, and nothing is on the disk",
    "tokens.recovered": "a torn tail of the ledger of tokens is cut off, or its newline is back",
    "tokens.half_written": "half of the line about a token is written",
    "tokens.written": "the line about a token is written; the file's name may not be durable",
    "tokens.synced": "the line about a token and its file's name are durable; nothing is acknowledged yet",
    "recover.deletes_finished": "the deletes that were interrupted are finished; no transcript was looked at",
    "recover.index_removed": "the index that could not be used is removed, and there is no new one",
    "space.begun": "a space is to be deleted, and its folder has its name",
    "space.renamed": "its folder is renamed, and that is not durable yet",
    "space.receipt_written": "that is durable, and so is its receipt; its files are there",
    "space.removed": "its files are removed, and that is not durable yet",
    "move.begun": "all logs are to be copied to another place, which is marked as not whole",
    "move.part": "a part of a log is copied",
    "move.copied": "a log is copied, and its copy is durable",
    "move.compared": "every log is copied and compared; the place is marked as not whole",
    "move.ended": "the place is marked as whole; nothing is acknowledged yet",
    "restore.begun": "a backup is to be copied back, and the data folder is marked as not whole",
    "restore.decrypted": "an encrypted backup is decrypted into the data folder",
    "restore.taken_in": "the mark names the spaces, and what an earlier try left there is removed",
    "restore.copied": "a log is copied, into a folder that has not its name",
    "restore.named": "the logs of a kind are copied, and their folder has its name",
    "restore.ledger_named": "a ledger has its name; the conversations of its space have not",
    "restore.indexed": "a space is restored, with its index; the folder is marked as not whole",
    "restore.ended": "all is restored, and the mark is gone; nothing is acknowledged yet",
    "settings.half_written": "half of a new file of settings is written beside the old one",
    "settings.written": "the new file of settings is whole, and has not the old one's name",
    "settings.replaced": "it has that name, and that is not durable yet; nothing runs with it",
    "audit.half_written": "half of a record of the audit is written",
    "audit.rotated": "the file of the audit has the name of an older one, and there is no new one",
    "recover.done": "the index is brought up; nobody can call yet",
}
"""Every failpoint, with what is true when it is hit."""

_NAME, _, _TIMES = os.environ.get("RECOLLECT_KILL_AT", "").partition(":")
if _NAME and _NAME not in FAILPOINTS:
    raise ValueError(f"RECOLLECT_KILL_AT: there is no failpoint {_NAME!r}")
_passes = itertools.count(1)  # counts without a lock
_NTH = int(_TIMES or 1)


def hit(name: str) -> None:
    """End this process here if this failpoint is the chosen one."""
    if name == _NAME and next(_passes) == _NTH:
        os.kill(os.getpid(), signal.SIGKILL)


def hit_half_way(name: str, data: bytes, write: Callable[[bytes], object]) -> None:
    """End this process with half of the bytes written if this failpoint is the chosen one."""
    if name == _NAME and next(_passes) == _NTH:
        write(data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
