# Generated from proto and scripts/client_methods.toml by scripts/client_methods.py.
"""`client.external`."""

from collections.abc import AsyncIterator, Iterable

from recollect._async.invoker import Invoker
from recollect._async.watch import Watch
from recollect._shared import calls
from recollect._types.external import (
    CommunicationPage,
    CommunicationSearch,
    CommunicationUpdate,
    DeletedCommunications,
    Escalation,
    EscalationPage,
    ExternalCommunication,
    LoadedCommunication,
    RecordedReply,
    RedactedExternalMessage,
    Trust,
)
from recollect._types.recall import (
    DateRange,
)


class External:
    """Calls that read, trust and answer third parties, apart from all conversations, at
    `client.external`.

    Arguments that are `None`, `timeout` and `request_id` mean what they mean in
    `client.conversations`.
    """

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker

    def list_communications(
        self,
        *,
        party: str | None = None,
        trust: Trust | None = None,
        open_escalations_only: bool = False,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[ExternalCommunication]:
        """Iterate over all communications that match every filter, newest `update_time` first, page
        by page.

        `party` is an address as it was normalised. `timeout` bounds each page.

        >>> open_ones = client.external.list_communications(open_escalations_only=True)
        >>> async for communication in open_ones:
        ...     print(communication.party, communication.open_escalations)
        """
        return self._invoker.iterate(
            calls.LIST_COMMUNICATIONS(
                page_size=page_size,
                party=party,
                trust=trust,
                open_escalations_only=open_escalations_only,
            ),
            timeout,
        )

    async def list_communications_page(
        self,
        *,
        page_token: str | None = None,
        party: str | None = None,
        trust: Trust | None = None,
        open_escalations_only: bool = False,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> CommunicationPage:
        """Return one page of `list_communications`: the first, or with `page_token` the one after
        another, with the same filters.

        >>> page = await client.external.list_communications_page(page_size=20)
        >>> token = page.next_page_token
        >>> page = await client.external.list_communications_page(page_size=20, page_token=token)
        """
        return await self._invoker.run(
            calls.LIST_COMMUNICATIONS(
                page_size=page_size,
                page_token=page_token,
                party=party,
                trust=trust,
                open_escalations_only=open_escalations_only,
            ),
            timeout,
        )

    async def get_communication(
        self,
        communication_id: str,
        *,
        page_token: str | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> LoadedCommunication:
        """Return a communication with a page of its messages, newest first; with `page_token` the
        page of older ones.

        >>> loaded = await client.external.get_communication(communication_id, page_size=20)
        """
        return await self._invoker.run(
            calls.GET_COMMUNICATION(
                communication_id=communication_id, page_size=page_size, page_token=page_token
            ),
            timeout,
        )

    async def search_communications(
        self,
        query: str,
        *,
        limit: int | None = None,
        party: str | None = None,
        channel: str | None = None,
        trust: Trust | None = None,
        date_range: DateRange | None = None,
        communication_id: str | None = None,
        timeout: float | None = None,
    ) -> CommunicationSearch:
        """Search the messages of third parties and the replies to them, by words.
        `client.recall.search` does not.

        Every filter that is given must match. `party` is an address: in any usual form with
        `channel`, else as it was normalised.

        >>> found = await client.external.search_communications("invoice", trust=Trust.KNOWN)
        """
        return await self._invoker.run(
            calls.SEARCH_COMMUNICATIONS(
                query=query,
                limit=limit,
                party=party,
                channel=channel,
                trust=trust,
                date_range=date_range,
                communication_id=communication_id,
            ),
            timeout,
        )

    async def register_contact(
        self,
        channel: str,
        party: str,
        *,
        trust: Trust = Trust.KNOWN,
        scopes: Iterable[str] | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> ExternalCommunication:
        """Set the trust of a party that may not have written yet, so that its first message asks
        nobody.

        `scopes` as in `set_trust`. Where the party wrote before, it is `set_trust`.

        >>> await client.external.register_contact("email", "hanan@example.org", scopes=["billing"])
        """
        return await self._invoker.run(
            calls.REGISTER_CONTACT(
                channel=channel, party=party, trust=trust, scopes=scopes, request_id=request_id
            ),
            timeout,
        )

    async def set_trust(
        self,
        communication_id: str,
        trust: Trust,
        *,
        scopes: Iterable[str] | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> ExternalCommunication:
        """Set the trust of a party. `scopes`, with `Trust.KNOWN` alone, name the subjects it may be
        answered about; none means any.

        To block a party resolves its open escalations, without an answer.

        >>> await client.external.set_trust(communication_id, Trust.KNOWN, scopes=["billing"])
        """
        return await self._invoker.run(
            calls.SET_TRUST(
                communication_id=communication_id, trust=trust, scopes=scopes, request_id=request_id
            ),
            timeout,
        )

    async def record_reply(
        self,
        communication_id: str,
        text: str,
        *,
        scope: str | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> RecordedReply:
        """Record a reply to a party. `PermissionDenied` is raised where its trust does not allow
        one: ask before sending.

        A blocked party is never answered; an untrusted one when the owner answered an escalation
        and it wrote nothing since; a known one about its scopes, of which `scope` names one. An
        untrusted one may besides have the acknowledgement that `ReceivedExternal` offers, once
        until the owner answers.

        >>> text = "The invoice is on its way."
        >>> await client.external.record_reply(communication_id, text, scope="billing")
        """
        return await self._invoker.run(
            calls.RECORD_REPLY(
                communication_id=communication_id, text=text, request_id=request_id, scope=scope
            ),
            timeout,
        )

    def list_escalations(
        self,
        *,
        communication_id: str | None = None,
        include_resolved: bool = False,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Escalation]:
        """Iterate over the questions that wait for the owner, oldest first, page by page.

        >>> async for escalation in client.external.list_escalations():
        ...     print(escalation.question)
        """
        return self._invoker.iterate(
            calls.LIST_ESCALATIONS(
                page_size=page_size,
                communication_id=communication_id,
                include_resolved=include_resolved,
            ),
            timeout,
        )

    async def list_escalations_page(
        self,
        *,
        page_token: str | None = None,
        communication_id: str | None = None,
        include_resolved: bool = False,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> EscalationPage:
        """Return one page of `list_escalations`: the first, or with `page_token` the one after
        another, with the same filters.

        >>> page = await client.external.list_escalations_page(page_size=20)
        >>> token = page.next_page_token
        >>> page = await client.external.list_escalations_page(page_size=20, page_token=token)
        """
        return await self._invoker.run(
            calls.LIST_ESCALATIONS(
                page_size=page_size,
                page_token=page_token,
                communication_id=communication_id,
                include_resolved=include_resolved,
            ),
            timeout,
        )

    async def resolve_escalation(
        self,
        escalation_id: str,
        answer: str,
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> Escalation:
        """Record the owner's answer. The same answer again changes nothing; another one raises
        `FailedPrecondition`.

        >>> await client.external.resolve_escalation(escalation_id, "Yes, from June.")
        """
        return await self._invoker.run(
            calls.RESOLVE_ESCALATION(
                escalation_id=escalation_id, answer=answer, request_id=request_id
            ),
            timeout,
        )

    async def delete_communications(
        self,
        *,
        communication_ids: Iterable[str] | None = None,
        parties: Iterable[str] | None = None,
        channels: Iterable[str] | None = None,
        dry_run: bool = False,
        limit: int | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> DeletedCommunications:
        """Delete the communications that match all filters for good, the longest unchanged first,
        and return a receipt. At least one filter must be given.

        `parties` are addresses in any usual form, or names of persons. With a communication goes
        the trust in its party: one that was blocked is not any more. `dry_run` deletes nothing, and
        answers what would be deleted.

        >>> parties = ["hanan@example.org"]
        >>> receipt = await client.external.delete_communications(parties=parties, dry_run=True)
        """
        return await self._invoker.run(
            calls.DELETE_COMMUNICATIONS(
                communication_ids=communication_ids,
                parties=parties,
                channels=channels,
                dry_run=dry_run,
                limit=limit,
                request_id=request_id,
            ),
            timeout,
        )

    async def redact_external_message(
        self,
        communication_id: str,
        sequence: int,
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> RedactedExternalMessage:
        """Remove the text of one message for good, in either direction, from every file of the
        service, with its files, the sender's name and the headers of an e-mail. The message stays,
        without its text, and the question of the escalation that it opened quotes it no more.

        >>> done = await client.external.redact_external_message(communication_id, message.sequence)
        """
        return await self._invoker.run(
            calls.REDACT_EXTERNAL_MESSAGE(
                communication_id=communication_id, sequence=sequence, request_id=request_id
            ),
            timeout,
        )

    def watch(
        self,
        *,
        cursor: str | None = None,
    ) -> Watch[CommunicationUpdate]:
        """Stream live updates for a panel: first the newest communications, then every change, in
        order.

        With `cursor` what came after it instead of the beginning. The connection is made again when
        it breaks, and nothing is missed or repeated. Where the server cannot tell what was missed,
        a `CommunicationList` comes that is marked `reset`: it replaces everything known. Messages
        of a blocked party are not reported.

        >>> async for update in client.external.watch():
        ...     if isinstance(update.kind, CommunicationEscalated):
        ...         print(update.kind.escalation.question)
        """
        return Watch(self._invoker, calls.STREAM_COMMUNICATION_UPDATES(cursor=cursor))
