"""Live updates: how soon subscribers hear of an append, what they cost, and how soon one that was
away has caught up.

Against a bare grpc.aio stream that sends the same bytes to as many, in the same run.

`python -m bench.stream [--few 50] [--many 2000] [--events 300] [--missed 10000] [--rounds 3]`, or
`--soak MINUTES`: random drops
"""

import argparse
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import grpc
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import message_pb2
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub

from bench.append import APPEND, requests, text
from bench.calls import measure
from bench.drops import soak
from bench.figures import Figure, Goal
from bench.servers import FANOUT_PUBLISH, FANOUT_WATCH, fanout, recollect, resident_bytes
from bench.watchers import Watchers, watchers

WATCH = "/recollect.v1.ConversationService/StreamUpdates"
_PAUSE = 0.05  # seconds between two events
_STUCK = 20


def at(times: Sequence[float], share: float) -> float:
    """Return the time, in milliseconds, that this share of the times stayed under."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000


def deliveries(
    streams: int, events: int, them: Watchers, cause: Callable[[], object]
) -> list[float]:
    """Cause one event after the other, and return the seconds from each causing call until each
    stream has its event.
    """
    times: list[float] = []
    for _ in range(events):
        time.sleep(_PAUSE)  # so that each event is delivered by itself
        began = time.time()
        cause()
        arrivals = them.arrivals(streams)
        if arrivals.elements != streams:
            raise SystemExit(f"{arrivals.elements} of {streams} were told")
        times += [came - began for came in arrivals.times]
    return times


class Service:
    """A running Recollect, and one conversation in it."""

    def __init__(self, target: str) -> None:
        self.channel = grpc.insecure_channel(target)
        self.stub = ConversationServiceStub(self.channel)
        self.conversation = self.stub.Create(api.CreateRequest(channel="web")).conversation.id
        self.text = text(random.Random(1))

    def append(self) -> api.AppendTurnResponse:
        """Append one message of 500 bytes."""
        message = message_pb2.Message(role=message_pb2.ROLE_USER, content=self.text)
        return self.stub.AppendTurn(
            api.AppendTurnRequest(conversation_id=self.conversation, messages=[message])
        )

    def update(self) -> bytes:
        """Return the element that such an append makes."""
        call = self.stub.StreamUpdates(api.StreamUpdatesRequest(cursor=self.append().cursor))
        self.append()
        element = next(it for it in call if it.update.WhichOneof("kind") == "conversation_updated")
        call.cancel()
        return bytes(element.SerializeToString())


def latency(service: Service, target: str, plain: str, streams: int, events: int) -> list[Figure]:
    """Append to delivery, and the same of the bare stream."""
    payload = service.update()
    ask = api.StreamUpdatesRequest(cursor=service.append().cursor).SerializeToString()
    with watchers(target, WATCH, ask, streams) as them:
        them.arrivals(streams)  # a heartbeat each
        ours = deliveries(streams, events, them, service.append)
    with (
        grpc.insecure_channel(plain) as channel,
        watchers(plain, FANOUT_WATCH, b"", streams) as them,
    ):
        publish: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(FANOUT_PUBLISH)
        them.arrivals(streams)
        base = deliveries(streams, events, them, lambda: publish(payload))
    print(
        f"{streams} subscribers, {events} events of {len(payload)} bytes: append to delivery p50 {at(ours, 0.5):.1f} ms, p99"
        f" {at(ours, 0.99):.1f} ms; bare aio stream p50 {at(base, 0.5):.1f} ms, p99 {at(base, 0.99):.1f} ms;"
        f" ratio p50 {at(ours, 0.5) / at(base, 0.5):.2f}, p99 {at(ours, 0.99) / at(base, 0.99):.2f}",
        flush=True,
    )
    goals = {50: (Goal(10), Goal(40)), 2000: (Goal(300), Goal(300))}.get(streams, (None, None))
    return [
        Figure(
            f"delivery {name}",
            at(ours, share),
            "ms",
            at(base, share),
            "aio stream",
            at(ours, share) / at(base, share),
            goal,
            streams,
            "subscribers",
        )
        for name, share, goal in zip(("p50", "p99"), (0.5, 0.99), goals, strict=True)
    ]


def stuck(service: Service, target: str, streams: int, events: int) -> list[Figure]:
    """Return the same while twenty others do not read what they are sent, until the server cancels
    them.
    """
    ask = api.StreamUpdatesRequest(
        cursor=service.append().cursor, conversation_ids=[service.conversation]
    ).SerializeToString()
    with watchers(target, WATCH, ask, streams) as them:
        them.arrivals(streams)
        alone = deliveries(streams, events, them, service.append)
        channels = [
            grpc.insecure_channel(target, [("grpc.use_local_subchannel_pool", 1)])
            for _ in range(_STUCK)
        ]
        calls = [
            ConversationServiceStub(channel).StreamUpdates(api.StreamUpdatesRequest())
            for channel in channels
        ]
        time.sleep(1)  # until they have their snapshots, which nobody reads
        other = service.stub.Create(api.CreateRequest(channel="web")).conversation.id
        large = message_pb2.Message(role=message_pb2.ROLE_USER, content="x" * 1_000_000)
        for _ in range(8):
            service.stub.AppendTurn(api.AppendTurnRequest(conversation_id=other, messages=[large]))
        time.sleep(0.5)  # until what lies between is full
        beside = deliveries(streams, events, them, service.append)
        for call in calls:
            call.cancel()
        for channel in channels:
            channel.close()
    print(
        f"{streams} subscribers, {_STUCK} others stuck: p50 {at(beside, 0.5):.1f} ms, p99 {at(beside, 0.99):.1f} ms; none stuck:"
        f" p50 {at(alone, 0.5):.1f} ms, p99 {at(alone, 0.99):.1f} ms; ratio p50 {at(beside, 0.5) / at(alone, 0.5):.2f}, p99"
        f" {at(beside, 0.99) / at(alone, 0.99):.2f}",
        flush=True,
    )
    p50, base = at(beside, 0.5), at(alone, 0.5)
    return [
        Figure(
            f"delivery p50, {_STUCK} stuck",
            p50,
            "ms",
            base,
            "none stuck",
            p50 / base,
            None,
            streams,
            "subscribers",
        )
    ]


def rate(service: Service, target: str, streams: int, rounds: int, calls: int) -> list[Figure]:
    """Return the append rate with subscribers of everything, against that with none; each has
    everything in the end.
    """
    alone: list[float] = []
    watched: list[float] = []
    behind: list[float] = []
    for _ in range(rounds):
        alone.append(measure(target, APPEND, requests(target, 8, calls, 1)).rate)
        made = requests(target, 8, calls, 1)
        ask = api.StreamUpdatesRequest(
            cursor=service.append().cursor, max_batch=1000
        ).SerializeToString()
        with watchers(target, WATCH, ask, streams) as them:
            them.arrivals(streams)
            watched.append(measure(target, APPEND, made).rate)
            last, ended = service.append().cursor, time.time()
            while not all(_newest(element) == last for element in them.arrivals(1).newest):
                if time.time() > ended + 60:
                    raise SystemExit("some were not told everything")
            behind.append(time.time() - ended)
    ratio = statistics.median(w / a for w, a in zip(watched, alone, strict=True))
    print(
        f"{streams} subscribers of everything: {statistics.median(watched):.0f} appends/s, none: {statistics.median(alone):.0f};"
        f" ratio {ratio:.2f}; all had everything {statistics.median(behind):.2f} s after the last append",
        flush=True,
    )
    base = statistics.median(alone)
    goal = Goal(0.7, least=True, of_ratio=True) if streams == 50 else None
    return [
        Figure(
            "appends, watched",
            statistics.median(watched),
            "/s",
            base,
            "no subscribers",
            ratio,
            goal,
            streams,
            "subscribers",
        )
    ]


def _newest(element: bytes) -> str:
    response = api.StreamUpdatesResponse.FromString(element)
    return [response.update, *response.following][-1].cursor


def resume(data: Path, plain: str, missed: int) -> list[Figure]:
    """Measure the delay until a subscriber that missed `missed` updates has them, after a restart;
    and a bare stream of as many.
    """
    with recollect(data) as (target, _):
        service = Service(target)
        payload = service.update()
        cursor = service.append().cursor
        for _ in range(missed // 10):
            message = message_pb2.Message(role=message_pb2.ROLE_USER, content=service.text)
            request = api.AppendTurnRequest(
                conversation_id=service.conversation, messages=[message]
            )
            for done in [service.stub.AppendTurn.future(request) for _ in range(10)]:
                done.result()
        service.channel.close()
    with recollect(data) as (target, _), grpc.insecure_channel(target) as channel:
        stub = ConversationServiceStub(channel)
        stub.List(api.ListRequest(page_size=1))
        seconds = {}
        for batch in (1000, 1):
            began = time.perf_counter()
            count = 0
            for element in stub.StreamUpdates(
                api.StreamUpdatesRequest(cursor=cursor, max_batch=batch)
            ):
                count += 1 + len(element.following)
                if element.update.WhichOneof("kind") == "heartbeat":
                    break
            seconds[batch] = time.perf_counter() - began
            if count != missed + 1:
                raise SystemExit(f"{count - 1} of {missed} were told")
    with grpc.insecure_channel(plain) as channel:
        watch: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(FANOUT_WATCH)
        began = time.perf_counter()
        for _ in watch(missed.to_bytes(4, "big") + payload):
            pass
        base = time.perf_counter() - began
    print(
        f"{missed} missed updates of {len(payload)} bytes: {seconds[1000]:.2f} s in batches, {seconds[1]:.2f} s one by one;"
        f" bare aio stream {base:.2f} s; ratio {seconds[1000] / base:.2f}, {seconds[1] / base:.2f}",
        flush=True,
    )
    goal = Goal(1) if missed == 10_000 else None
    return [
        Figure(
            "resume, in batches",
            seconds[1000],
            "s",
            base,
            "aio stream",
            seconds[1000] / base,
            goal,
            missed,
            "missed updates",
        ),
        Figure(
            "resume, one by one",
            seconds[1],
            "s",
            base,
            "aio stream",
            seconds[1] / base,
            None,
            missed,
            "missed updates",
        ),
    ]


def memory(data: Path, plain: str, streams: int, events: int) -> list[Figure]:
    """Measure the memory that many subscribers take on a server that embeds nothing, and one update
    to all of them.
    """
    with recollect(data, "--embedder", "off") as (target, server):  # or the model would be counted
        service = Service(target)
        latency(service, target, plain, 1, 3)
        results = [
            _subscribe(service, target, server, streams),
            *latency(service, target, plain, streams, events),
        ]
        service.channel.close()
    return results


def _subscribe(
    service: Service, target: str, server: subprocess.Popen[str], streams: int
) -> Figure:
    before = resident_bytes(server)
    ask = api.StreamUpdatesRequest(cursor=service.append().cursor).SerializeToString()
    with watchers(target, WATCH, ask, streams) as them:
        them.arrivals(streams)
        service.append()
        them.arrivals(streams)
        each = (resident_bytes(server) - before) / streams / 1024
        print(f"{streams} subscribers: {each:.1f} KiB each", flush=True)
    return Figure(
        "memory for each",
        each,
        "KiB",
        goal=Goal(30) if streams == 2000 else None,
        at=streams,
        of="subscribers",
    )


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--few", type=int, default=50)
    parser.add_argument("--many", type=int, default=2000)
    parser.add_argument("--events", type=int, default=300)
    parser.add_argument("--missed", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--soak", type=float, metavar="MINUTES")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        if chosen.soak is not None:
            soak(data, chosen.soak * 60)
            return []
        with fanout() as (plain, _):
            with recollect(data) as (target, _):
                service = Service(target)
                results = latency(service, target, plain, chosen.few, chosen.events)
                results += stuck(service, target, chosen.few, min(chosen.events, 80))
                results += rate(service, target, chosen.few, chosen.rounds, chosen.calls)
                service.channel.close()
            results += memory(
                Path(folder) / "many", plain, chosen.many, max(3, chosen.events // 30)
            )
            return results + resume(Path(folder) / "resume", plain, chosen.missed)


if __name__ == "__main__":
    main()
