# Generated from proto and scripts/client_methods.toml by scripts/client_methods.py.
"""`client.conversations`."""

from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from typing import Any

from recollect._async.invoker import Invoker
from recollect._async.watch import Watch
from recollect._shared import answers, calls
from recollect._types.context import (
    ContextTier,
    TurnMemory,
    TurnMemoryPage,
)
from recollect._types.conversation import (
    AnchorDisposition,
    AppendedTurn,
    ArchiveFilter,
    Conversation,
    ConversationPage,
    DeletedConversations,
    DeletionReceipt,
    LoadedConversation,
    Party,
    RedactedMessages,
    RegeneratedNotes,
)
from recollect._types.message import Message
from recollect._types.update import (
    Update,
)


class Conversations:
    """Calls that begin, write, read, name and delete conversations, at `client.conversations`.

    What is the same in all methods: an argument that is `None` is left to the server's default;
    `timeout` bounds the call in seconds, retries included, instead of the client's own; and a
    method that changes something takes a `request_id`, 1 to 128 printable ASCII characters without
    spaces, which makes it exactly-once: the same id with the same arguments is answered as it was
    the first time. Without one the client makes its own, so that its retries are safe. An empty
    text sends none, and then nothing is retried.

    A conversation that is not there, or was deleted, raises `NotFound`. A wrong argument raises
    `InvalidArgument`, whose `violations` name the field, and changes nothing.
    """

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker

    async def create(
        self,
        channel: str,
        *,
        participants: Iterable[str] | None = None,
        party: Party | None = None,
        model: str | None = None,
        create_time: datetime | None = None,
        messages: Iterable[Message] | None = None,
        pinned: bool = False,
        conversation_id: str | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Conversation:
        """Create a conversation on a channel. Its first messages may come with it, all or none, or
        follow at any time.

        `create_time` and `conversation_id` are for an import: when it began, and the id that it
        keeps. An id that is taken raises `AlreadyExists`, with the reason `CONVERSATION_EXISTS`.
        `pinned` lets an agent write first: what comes in from `party` joins this conversation, and
        no longer the one that was pinned there.

        >>> messages = [Message.user("Is the disk full?")]
        >>> conversation = await client.conversations.create("web", messages=messages)
        >>> conversation = await client.conversations.create("web", participants=["alex"])
        """
        return await self._invoker.run(
            calls.CREATE(
                channel=channel,
                participants=participants,
                party=party,
                model=model,
                request_id=request_id,
                create_time=create_time,
                messages=messages,
                pinned=pinned,
                conversation_id=conversation_id,
            ),
            timeout,
        )

    async def get(
        self,
        conversation_id: str,
        *,
        timeout: float | None = None,
    ) -> Conversation:
        """Return a conversation without its messages.

        >>> conversation = await client.conversations.get(conversation_id)
        """
        return await self._invoker.run(calls.GET(conversation_id=conversation_id), timeout)

    def list(
        self,
        *,
        channels: Iterable[str] | None = None,
        topics: Iterable[str] | None = None,
        party: Party | None = None,
        pinned: bool | None = None,
        updated_after: datetime | None = None,
        updated_before: datetime | None = None,
        query: str | None = None,
        notes_failed: bool | None = None,
        archived: ArchiveFilter | None = None,
        participants: Iterable[str] | None = None,
        metadata_key: str | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Conversation]:
        """Iterate over all conversations that match every filter, newest `update_time` first, page
        by page.

        `participants` are names, or any address of a person, which finds all of that person.
        `query` is looked for in the name; `notes_failed` chooses those whose notes the server could
        not write, and `metadata_key` those with a value of that key. Archived ones are left out
        unless `archived` asks for them. `page_size` (50; at most 500) is the number asked for at a
        time, and `timeout` bounds each page.

        >>> async for conversation in client.conversations.list(channels=["web"]):
        ...     print(conversation.name)
        """
        return self._invoker.iterate(
            calls.LIST(
                page_size=page_size,
                channels=channels,
                topics=topics,
                party=party,
                pinned=pinned,
                updated_after=updated_after,
                updated_before=updated_before,
                query=query,
                notes_failed=notes_failed,
                archived=archived,
                participants=participants,
                metadata_key=metadata_key,
            ),
            timeout,
        )

    async def list_page(
        self,
        *,
        page_token: str | None = None,
        channels: Iterable[str] | None = None,
        topics: Iterable[str] | None = None,
        party: Party | None = None,
        pinned: bool | None = None,
        updated_after: datetime | None = None,
        updated_before: datetime | None = None,
        query: str | None = None,
        notes_failed: bool | None = None,
        archived: ArchiveFilter | None = None,
        participants: Iterable[str] | None = None,
        metadata_key: str | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> ConversationPage:
        """Return one page of `list`: the first, or with `page_token` the one after another, with
        the same filters.

        >>> page = await client.conversations.list_page(page_size=20)
        >>> token = page.next_page_token
        >>> page = await client.conversations.list_page(page_size=20, page_token=token)
        """
        return await self._invoker.run(
            calls.LIST(
                page_size=page_size,
                page_token=page_token,
                channels=channels,
                topics=topics,
                party=party,
                pinned=pinned,
                updated_after=updated_after,
                updated_before=updated_before,
                query=query,
                notes_failed=notes_failed,
                archived=archived,
                participants=participants,
                metadata_key=metadata_key,
            ),
            timeout,
        )

    async def load(
        self,
        conversation_id: str | None = None,
        *,
        channel: str | None = None,
        max_turns: int | None = None,
        max_tokens: int | None = None,
        before_turn: int | None = None,
        before_sequence: int | None = None,
        timeout: float | None = None,
    ) -> LoadedConversation:
        """Return the working context of a conversation, or of the most recent one of `channel`: its
        newest turns, and a summary of the compressed turns before them.

        Of a channel without conversations the answer's `conversation` is None. `max_turns` (20) and
        `max_tokens` (8000, estimated at four bytes each) bound it. `before_turn` asks for the turns
        before that one instead: a page of history. Turns are cut only where one alone is larger
        than an answer may be (a setting of the server, 4 MB): then `cut_before_sequence` is set,
        and the rest of the turn comes with it as `before_sequence`.

        >>> context = await client.conversations.load(channel="web", max_turns=10)
        """
        return await self._invoker.run(
            calls.LOAD(
                conversation_id=conversation_id,
                channel=channel,
                max_turns=max_turns,
                max_tokens=max_tokens,
                before_turn=before_turn,
                before_sequence=before_sequence,
            ),
            timeout,
        )

    async def append_turn(
        self,
        conversation_id: str,
        messages: Iterable[Message],
        *,
        expected_turn: int | None = None,
        draft_id: str | None = None,
        in_reply_to_turn: int | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> AppendedTurn:
        """Append messages, all or none. When it returns they are on the disk and can be searched.

        With `expected_turn` they are written only if that is still the conversation's newest turn
        (0: it has none yet), and else `TurnOutOfDate` is raised. A tool result joins the turn of
        its call, however late it comes; with `in_reply_to_turn` the assistant's messages join that
        turn instead of the newest. `draft_id` is the live draft that these messages complete.

        >>> messages = [Message.user("Is the disk full?"), Message.assistant("Yes: 97 %.")]
        >>> stored = await client.conversations.append_turn(conversation_id, messages)
        """
        return await self._invoker.run(
            calls.APPEND_TURN(
                conversation_id=conversation_id,
                messages=messages,
                request_id=request_id,
                expected_turn=expected_turn,
                draft_id=draft_id,
                in_reply_to_turn=in_reply_to_turn,
            ),
            timeout,
        )

    def watch(
        self,
        *,
        conversation_ids: Iterable[str] | None = None,
        channels: Iterable[str] | None = None,
        cursor: str | None = None,
        max_turns: int | None = None,
        load_channel: str | None = None,
        load_conversation_id: str | None = None,
        list_channels: Iterable[str] | None = None,
    ) -> Watch[Update]:
        """Stream live updates: first the newest conversations and the newest turns of the first
        one, then every change, in order.

        `conversation_ids` and `channels` choose; with `cursor` what came after it instead of the
        beginning. Of what they choose the beginning may show less: `load_channel` or
        `load_conversation_id` says which conversation's turns, `list_channels` the channels whose
        conversations are listed. The connection is made again when it breaks, and nothing is missed
        or repeated. Where the server cannot tell what was missed, a `ConversationList` comes that
        is marked `reset`: it replaces everything known.

        >>> async for update in client.conversations.watch(channels=["web"]):
        ...     if isinstance(update.kind, ConversationUpdated):
        ...         print(update.conversation_id, update.kind.messages)
        """
        return Watch(
            self._invoker,
            calls.STREAM_UPDATES(
                conversation_ids=conversation_ids,
                channels=channels,
                cursor=cursor,
                max_turns=max_turns,
                max_batch=answers.BATCH,
                load_channel=load_channel,
                load_conversation_id=load_conversation_id,
                list_channels=list_channels,
            ),
        )

    async def publish_delta(
        self,
        conversation_id: str,
        draft_id: str,
        offset: int,
        text: str = "",
        *,
        done: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Stream the next part of an unfinished answer to all watches. It is never stored.

        `offset` is how many characters of the draft come before `text`. The answer itself is stored
        by `append_turn`, with the same `draft_id`, which is one that no answer of the conversation
        had before.

        >>> await client.conversations.publish_delta(conversation_id, "answer-7", 0, "The disk is ")
        >>> await client.conversations.publish_delta(
        ...     conversation_id, "answer-7", 12, "97 % full.", done=True
        ... )
        """
        await self._invoker.run(
            calls.PUBLISH_DELTA(
                conversation_id=conversation_id,
                draft_id=draft_id,
                offset=offset,
                text=text,
                done=done,
            ),
            timeout,
        )

    async def switch(
        self,
        from_conversation_id: str | None = None,
        to_conversation_id: str | None = None,
        *,
        max_turns: int | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> LoadedConversation:
        """Leave one conversation, which queues its abbreviation, and load another. Either may be
        left out.

        >>> context = await client.conversations.switch(old.id, new.id)
        """
        return await self._invoker.run(
            calls.SWITCH(
                from_conversation_id=from_conversation_id,
                to_conversation_id=to_conversation_id,
                max_turns=max_turns,
                request_id=request_id,
            ),
            timeout,
        )

    async def rename(
        self,
        conversation_id: str,
        title: str,
        *,
        automatic: bool = False,
        topics: Iterable[str] | None = None,
        writer: str | None = None,
        writer_model: str | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Conversation:
        """Name a conversation by hand, for good: nothing automatic renames it after that.

        `automatic` is for an import: it names it as the server itself does, with its topics. A name
        given by hand stands. `writer` and `writer_model` then say who wrote the title, as in
        `NoteRecord`.

        >>> await client.conversations.rename(conversation_id, "Server Monitoring")
        """
        return await self._invoker.run(
            calls.RENAME(
                conversation_id=conversation_id,
                title=title,
                request_id=request_id,
                automatic=automatic,
                topics=topics,
                writer=writer,
                writer_model=writer_model,
            ),
            timeout,
        )

    async def set_model(
        self,
        conversation_id: str,
        model: str,
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Conversation:
        """Set the model that answers in a conversation. An empty one means the caller's default
        again.

        >>> await client.conversations.set_model(conversation_id, "haiku")
        """
        return await self._invoker.run(
            calls.SET_MODEL(conversation_id=conversation_id, model=model, request_id=request_id),
            timeout,
        )

    async def fork(
        self,
        conversation_id: str,
        *,
        through_turn: int | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Conversation:
        """Begin a conversation as a copy of another one up to a turn (the newest, if none is
        named), to go on from there in another way.

        >>> fork = await client.conversations.fork(conversation_id, through_turn=3)
        >>> fork.origin
        """
        return await self._invoker.run(
            calls.FORK(
                conversation_id=conversation_id, through_turn=through_turn, request_id=request_id
            ),
            timeout,
        )

    async def set_topics(
        self,
        conversation_id: str,
        topics: Iterable[str],
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Conversation:
        """Set the topics of a conversation by hand: automatic notes leave them from then on. None
        leaves them to the notes again.

        >>> await client.conversations.set_topics(conversation_id, ["disk", "servers"])
        """
        return await self._invoker.run(
            calls.SET_TOPICS(conversation_id=conversation_id, topics=topics, request_id=request_id),
            timeout,
        )

    async def archive(
        self,
        conversation_id: str,
        *,
        unarchive: bool = False,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Conversation:
        """Archive a conversation: lists leave it out, and searches find it as before. A message of
        the person takes it out again, as does `unarchive`.

        >>> await client.conversations.archive(conversation_id)
        """
        return await self._invoker.run(
            calls.ARCHIVE(
                conversation_id=conversation_id, unarchive=unarchive, request_id=request_id
            ),
            timeout,
        )

    async def update_metadata(
        self,
        conversation_id: str,
        metadata: Mapping[str, Any],
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Conversation:
        """Keep values with a conversation, by key; `None` removes one, and others stay.

        >>> metadata = {"sdk_session": "s-1", "task": None}
        >>> await client.conversations.update_metadata(conversation_id, metadata)
        """
        return await self._invoker.run(
            calls.UPDATE_METADATA(
                conversation_id=conversation_id, metadata=metadata, request_id=request_id
            ),
            timeout,
        )

    async def record_compression(
        self,
        conversation_id: str,
        compressed_through: int,
        summary: str,
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Conversation:
        """Record that the agent's working context has `summary` in place of the turns up to
        `compressed_through`.

        No message changes: `load` answers the summary and the turns after it.

        >>> summary = "Alex set up monitoring. The disk fills every week."
        >>> await client.conversations.record_compression(conversation_id, 12, summary)
        """
        return await self._invoker.run(
            calls.RECORD_COMPRESSION(
                conversation_id=conversation_id,
                compressed_through=compressed_through,
                summary=summary,
                request_id=request_id,
            ),
            timeout,
        )

    async def record_abbreviation(
        self,
        conversation_id: str,
        text: str,
        *,
        topics: Iterable[str] | None = None,
        writer: str | None = None,
        writer_model: str | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Conversation:
        """Record meeting notes that the caller wrote itself: entities, decisions, open questions,
        outcomes.

        `topics` in kebab-case replace those it has. `writer` and `writer_model` are for an import:
        who wrote them, as in `NoteRecord`.

        >>> notes = "Decided: rotate the logs daily. Open: who watches the backup."
        >>> topics = ["logging", "backup"]
        >>> await client.conversations.record_abbreviation(conversation_id, notes, topics=topics)
        """
        return await self._invoker.run(
            calls.RECORD_ABBREVIATION(
                conversation_id=conversation_id,
                text=text,
                request_id=request_id,
                topics=topics,
                writer=writer,
                writer_model=writer_model,
            ),
            timeout,
        )

    async def set_turn_memory(
        self,
        conversation_id: str,
        turn_number: int,
        *,
        tier: ContextTier | None = None,
        reset_tier: bool = False,
        summary: str | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Conversation:
        """Record the tier of a turn and its summary, for the contexts that `recall.build_context`
        packs: they keep the turn there, and show the summary where they have no room for the turn.

        An empty `summary` removes it; `reset_tier` leaves the tier to the server again.

        >>> summary = "Chose NATS over Kafka: three nodes are enough."
        >>> remember = client.conversations.set_turn_memory
        >>> await remember(conversation_id, 12, tier="hot", summary=summary)
        """
        return await self._invoker.run(
            calls.SET_TURN_MEMORY(
                conversation_id=conversation_id,
                turn_number=turn_number,
                tier=tier,
                reset_tier=reset_tier,
                summary=summary,
                request_id=request_id,
            ),
            timeout,
        )

    def list_turn_memory(
        self,
        conversation_id: str,
        *,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[TurnMemory]:
        """Iterate over what was recorded of the turns of a conversation, in their order. `timeout`
        bounds each page.

        >>> async for memory in client.conversations.list_turn_memory(conversation_id):
        ...     print(memory.turn_number, memory.tier, memory.summary)
        """
        return self._invoker.iterate(
            calls.LIST_TURN_MEMORY(conversation_id=conversation_id, page_size=page_size), timeout
        )

    async def list_turn_memory_page(
        self,
        conversation_id: str,
        *,
        page_token: str | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> TurnMemoryPage:
        """Return one page of `list_turn_memory`: the first, or with `page_token` the one after
        another, with the same filters.

        >>> page = await client.conversations.list_turn_memory_page(page_size=20)
        >>> token = page.next_page_token
        >>> page = await client.conversations.list_turn_memory_page(page_size=20, page_token=token)
        """
        return await self._invoker.run(
            calls.LIST_TURN_MEMORY(
                conversation_id=conversation_id, page_size=page_size, page_token=page_token
            ),
            timeout,
        )

    async def regenerate_notes(
        self,
        conversation_id: str | None = None,
        *,
        channels: Iterable[str] | None = None,
        topics: Iterable[str] | None = None,
        writers: Iterable[str] | None = None,
        updated_after: datetime | None = None,
        updated_before: datetime | None = None,
        all: bool = False,  # noqa: A002 - the contract says so
        dry_run: bool = False,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> RegeneratedNotes:
        """Queue notes that the server wrote before to be written anew: of one conversation, or of
        all that match every filter.

        `writers` chooses by who wrote the present ones: without it, any but `caller`. `all` is
        needed where no filter is given; `dry_run` counts and queues nothing. Notes that a rule
        writes never replace those of a model or of a caller.

        >>> writers = ["extractive"]
        >>> answer = await client.conversations.regenerate_notes(writers=writers, dry_run=True)
        >>> print(answer.queued)
        """
        return await self._invoker.run(
            calls.REGENERATE_NOTES(
                conversation_id=conversation_id,
                channels=channels,
                topics=topics,
                writers=writers,
                updated_after=updated_after,
                updated_before=updated_before,
                all=all,
                dry_run=dry_run,
                request_id=request_id,
            ),
            timeout,
        )

    async def delete(
        self,
        conversation_id: str,
        *,
        anchors: AnchorDisposition | None = None,
        force: bool = False,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> DeletionReceipt:
        """Delete a conversation for good, its text from every file of the service, and return a
        receipt.

        `anchors` says what becomes of the anchors that came from it. Without, a conversation that
        has some is not deleted: `FailedPrecondition`, with the reason `ANCHORS_PRESENT`. So is a
        pinned one, with the reason `CONVERSATION_PINNED`, unless `force` says to delete it all the
        same.

        >>> keep = AnchorDisposition.KEEP
        >>> receipt = await client.conversations.delete(conversation_id, anchors=keep)
        """
        return await self._invoker.run(
            calls.DELETE(
                conversation_id=conversation_id, request_id=request_id, anchors=anchors, force=force
            ),
            timeout,
        )

    async def redact_message(
        self,
        conversation_id: str,
        sequence: int | None = None,
        *,
        turn_number: int | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> RedactedMessages:
        """Remove the text of one message, or of all messages of a turn, for good, from every file
        of the service. The messages stay, without their text.

        Notes, titles and summaries that came from the text go too, and are made again. Copies in
        forks stay: `copied_in` names them.

        >>> done = await client.conversations.redact_message(conversation_id, message.sequence)
        """
        return await self._invoker.run(
            calls.REDACT_MESSAGE(
                conversation_id=conversation_id,
                sequence=sequence,
                turn_number=turn_number,
                request_id=request_id,
            ),
            timeout,
        )

    async def delete_many(
        self,
        *,
        conversation_ids: Iterable[str] | None = None,
        channels: Iterable[str] | None = None,
        topics: Iterable[str] | None = None,
        updated_after: datetime | None = None,
        updated_before: datetime | None = None,
        archived: ArchiveFilter | None = None,
        anchors: AnchorDisposition | None = None,
        force: bool = False,
        dry_run: bool = False,
        limit: int | None = None,
        participants: Iterable[str] | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> DeletedConversations:
        """Delete the conversations that match all filters, the longest unchanged first, as `delete`
        does, and return a receipt. At least one filter must be given.

        `participants` are names, or any address of a person, which finds all of that person. Those
        that `delete` would refuse are left and named. `dry_run` deletes nothing, and answers what
        would be deleted.

        >>> before = datetime.now(UTC) - timedelta(days=365)
        >>> receipt = await client.conversations.delete_many(updated_before=before, dry_run=True)
        """
        return await self._invoker.run(
            calls.DELETE_MANY(
                conversation_ids=conversation_ids,
                channels=channels,
                topics=topics,
                updated_after=updated_after,
                updated_before=updated_before,
                archived=archived,
                anchors=anchors,
                force=force,
                dry_run=dry_run,
                limit=limit,
                request_id=request_id,
                participants=participants,
            ),
            timeout,
        )
