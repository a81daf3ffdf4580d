"""The list of features: what each registers with the kernel of a space (log, order, index, erase,
stream), which knows none of them.
"""

from recollect_server.anchors.service import AnchorChecker, KeptAnchors
from recollect_server.anchors.table import ANCHORS
from recollect_server.checkpoints.checkpoint import THREADS
from recollect_server.checkpoints.service import ThreadChecker
from recollect_server.insight.tables import ACTIVITY
from recollect_server.kernel.domain.conversation import ConversationNaming, register_naming
from recollect_server.kernel.index.derived import Tables
from recollect_server.kernel.log.entries import register
from recollect_server.kernel.space.features import Features
from recollect_server.notes.conversation_names import REQUEST, name_of, request_of
from recollect_server.notes.turn_memories import TURN_MEMORIES
from recollect_server.people.communication_lines import COMMUNICATIONS
from recollect_server.people.communication_logs import CommunicationLogs
from recollect_server.people.communication_table import ExternalIndex
from recollect_server.people.identities import identity_ledger
from recollect_server.people.received import Deliveries, DeliveryChecker, forgotten_ledger
from recollect_server.people.routing_table import CONTINUED, MAIL
from recollect_server.recall.vectors_at_rest import VectorChecker, VectorFile
from recollect_server.retention.service import retention_ledger
from recollect_server.text.words import ANALYSIS

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
