"""The part of people in a space: third parties, their communications, and who is who."""

from functools import partial

from recollect_server.contract.external_communication_service import ExternalCommunicationHandlers
from recollect_server.contract.updates import encode_communication_update
from recollect_server.kernel.space.events import ChangedElsewhere
from recollect_server.people.communication_logs import CommunicationStore
from recollect_server.people.communication_service import External
from recollect_server.people.communication_stream import LiveCommunications
from recollect_server.people.identities import Identities, identity_ledger
from recollect_server.people.routing_table import Routes
from recollect_server.run.parts.opening import Opening


def read(opening: Opening) -> None:
    communications = opening.give(CommunicationStore(opening.space))
    acknowledgement = opening.live.view(lambda now: now.acknowledgement)
    opening.give(External(communications, acknowledgement))
    opening.give(Identities(opening.space, identity_ledger(opening.space.store)))


def register(opening: Opening) -> None:
    space, shared = opening.space, opening.shared
    identities = opening.service(Identities)
    space.subscribe(ChangedElsewhere, lambda event: identities.changed(event.name))
    opening.give(Routes.of(space))
    updates = opening.give(
        LiveCommunications(
            opening.service(CommunicationStore), partial(encode_communication_update, opening.seal)
        )
    )
    opening.watched.append(updates)
    opening.handlers["ExternalCommunicationService"] = ExternalCommunicationHandlers(
        opening.service(External),
        updates,
        identities,
        shared.streams,
        shared.answers,
        opening.seal,
        opening.live.view(lambda now: now.search_timeout.total_seconds()),
    )
