"""The part of notes in a space: titles, topics, abbreviations, and summaries of long
conversations.
"""

from recollect_server.admin.jobs import JobReport
from recollect_server.kernel.domain.time import milliseconds
from recollect_server.notes.compaction import Compaction
from recollect_server.notes.conversation_notes import ConversationNotes
from recollect_server.notes.naming import Naming
from recollect_server.notes.one_at_a_time import NotesTask, OneAtATime
from recollect_server.run.jobs.notes import SpaceNotes
from recollect_server.run.models import NotesWriter, abbreviator
from recollect_server.run.parts.opening import Opening


def register(opening: Opening) -> None:
    space, live, writer = opening.space, opening.live, opening.shared.writer
    opening.give(ConversationNotes(space, by_rule=abbreviator(live.now) == "extractive"))
    if writer is None:
        sweep_interval = live.view(lambda now: milliseconds(now.sweep_interval))
        notes = SpaceNotes((), sweep_interval, lambda: None, lambda _: None)
    else:
        notes = _written_by(writer, opening)
    opening.give(notes)
    opening.reports.append(lambda: notes.report(space.clock))


def _written_by(writer: NotesWriter, opening: Opening) -> SpaceNotes:
    """Return the notes that wait in the space, for the writer to take."""
    space, live, settings = opening.space, opening.live, opening.live.now
    sweep_interval = live.view(lambda now: milliseconds(now.sweep_interval))
    idle_timeout = live.view(lambda now: milliseconds(now.idle_timeout))
    naming = Naming(
        space,
        writer.model,
        idle_timeout,
        writer.may_redo,
        offline=writer.offline,
        retry_after=sweep_interval,
        title_turns=live.view(lambda now: now.title_turns),
        first_title_turn=live.view(lambda now: now.first_title_turn),
    )
    tasks: list[NotesTask] = [naming]
    compaction = (
        Compaction(
            space,
            writer.condenser or writer.model,
            settings.compaction_messages,
            settings.compaction_keep,
            settings.compaction_tokens,
            offline=writer.offline,
        )
        if settings.compaction
        else None
    )
    if compaction is not None:
        tasks.append(compaction)
        failures = compaction.failures
        opening.reports.append(
            lambda: JobReport(name="compaction", failures=tuple(failures.items()))
        )
    if space.is_shared:
        tasks = [OneAtATime(space, task) for task in tasks]

    def due_at(sweep: int) -> int | None:
        now = space.clock()
        if compaction is not None and compaction.due(now, 1):
            return now
        return naming.due_at(sweep)

    def mark() -> object:
        # of a shorter time some wait already
        return space.index, space.index.taken()[1], idle_timeout.now

    return SpaceNotes(tasks, sweep_interval, mark, due_at)
