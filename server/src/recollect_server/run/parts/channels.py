"""The part of channels in a space: what comes in, from whom, and how often."""

from recollect_server.access.limits import Rate
from recollect_server.channels.commands import Commands
from recollect_server.channels.rate_limit import RateLimiter
from recollect_server.channels.receiving import Receiving
from recollect_server.contract.channel_service import ChannelHandlers
from recollect_server.kernel.erase.bulk_removal import Removals
from recollect_server.notes.conversation_notes import ConversationNotes
from recollect_server.people.communication_service import External
from recollect_server.people.identities import Identities
from recollect_server.people.routing_table import Routes
from recollect_server.run.parts.opening import Opening


def register(opening: Opening) -> None:
    space, identities = opening.space, opening.service(Identities)
    rate = opening.live.view(lambda now: Rate.of(now.sender_rate, 60_000, now.sender_burst))
    senders = RateLimiter(space, rate)
    opening.flushes.append(senders.close)
    notes, removals = opening.service(ConversationNotes), opening.service(Removals)
    receiving = Receiving(
        space,
        opening.service(Routes),
        identities,
        Commands(space, notes, removals, opening.live.now.model_names),
        senders,
        opening.service(External),
    )
    opening.handlers["ChannelService"] = ChannelHandlers(receiving, identities)
