"""The list of features: what each registers with the kernel of a space (log, order, index, erase,
stream), which knows none of them.
"""

from recollect_server.domain.conversation import ConversationNaming, register_naming
from recollect_server.domain.conversation_names import REQUEST, name_of, request_of
from recollect_server.services.anchors import AnchorChecker, KeptAnchors
from recollect_server.services.channels.deliveries import Deliveries, DeliveryChecker
from recollect_server.services.channels.identities import identity_ledger
from recollect_server.services.checkpoints import ThreadChecker
from recollect_server.services.external.communication_logs import CommunicationLogs
from recollect_server.services.retention import retention_ledger
from recollect_server.services.space.features import Features
from recollect_server.services.upkeep.vectors import VectorChecker, VectorFile
from recollect_server.storage.index.activity_tables import ACTIVITY
from recollect_server.storage.index.anchors import ANCHORS
from recollect_server.storage.index.derived import Tables
from recollect_server.storage.index.external import ExternalIndex
from recollect_server.storage.index.routing import CONTINUED, MAIL
from recollect_server.storage.index.turn_memories import TURN_MEMORIES
from recollect_server.storage.index.words import ANALYSIS
from recollect_server.storage.logs.communications import COMMUNICATIONS
from recollect_server.storage.logs.entries import register
from recollect_server.storage.logs.received import forgotten_ledger
from recollect_server.storage.logs.threads import THREADS

for vocabulary in (COMMUNICATIONS, THREADS):
    register(vocabulary)
register_naming(ConversationNaming(REQUEST, request_of, name_of))

FEATURES = Features(
    Tables(ANALYSIS, (ACTIVITY, ANCHORS, TURN_MEMORIES, MAIL, CONTINUED), (ExternalIndex,)),
    kinds=(CommunicationLogs,),
    participants=(KeptAnchors, Deliveries),
    at_start=(VectorFile,),
    checkers=(VectorChecker, DeliveryChecker, ThreadChecker, AnchorChecker),
    ledgers=(identity_ledger, retention_ledger, forgotten_ledger),
)
