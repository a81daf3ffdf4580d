"""LangGraph's store over Recollect: what its own tests do not ask for (`test_own_suites`)."""

import math
import threading
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp, SearchOp
from recollect import CheckpointRecord, Client, InvalidArgument
from recollect.adapters.langgraph import RecollectSaver, RecollectStore

from tests.adapters.test_langgraph_saver import reversing
from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import files_with

ALEX = ("memories", "alex")
THREAD = "langgraph-store/default"


@pytest.fixture
def store(client: Client) -> RecollectStore:
    return RecollectStore(client)


def values(store: BaseStore, *namespace: str, **options: Any) -> list[Any]:
    return [it.value["n"] for it in store.search(namespace, **options)]


def test_values_are_there_for_every_process_and_after_a_restart(
    server: RunningServer, store: RecollectStore, start_server: Start
) -> None:
    value = {"n": 1, "text": "grün 🍵", "list": [1, {"a": None}], "large": 2**60, "half": 0.5}
    places = [(ALEX, "tea"), (("memories",), "a/b%2F"), (("Ünï", "код /"), ""), (ALEX, "t" * 900)]
    for namespace, key in places:
        store.put(namespace, key, value)
    with Client(server.target) as elsewhere:
        assert RecollectStore(elsewhere, name="another").search(()) == []
        RecollectStore(elsewhere).put(ALEX, "by", {"n": 2})
    server.stop()
    with Client(start_server().target) as client:
        again = RecollectStore(client)
        for namespace, key in places:
            item = again.get(namespace, key)
            assert item is not None
            assert (item.value, item.namespace, item.key) == (value, namespace, key)
        assert values(again, *ALEX) == [2, 1, 1]  # the newest first
        assert again.list_namespaces() == [("memories",), ALEX, ("Ünï", "код /")]
        with pytest.raises(InvalidArgument, match="1024"):
            again.put(ALEX, "t" * 1025, value)


def test_the_longest_key_is_put_found_prolonged_and_deleted(
    client: Client, clock: MovableClock
) -> None:
    store = RecollectStore(client, clock=lambda: clock() / 1000)
    longest = "t" * (1024 - len("item/memories/alex//"))
    store.put(ALEX, longest, {"n": 1}, ttl=10)
    store.put(ALEX, "short", {"n": 2})
    clock.move(9 * 60_000)
    assert store.get(ALEX, longest) is not None
    clock.move(9 * 60_000)
    assert sorted(values(store, *ALEX)) == [1, 2]
    with pytest.raises(InvalidArgument, match="1024"):
        store.put(ALEX, f"{longest}t", {"n": 3})
    store.delete(ALEX, longest)
    assert values(store) == [2]
    assert len(client.checkpoints.list_records(THREAD, keys_only=True).records) == 1


def test_a_large_value_is_there_while_it_is_replaced(
    server: RunningServer, store: RecollectStore
) -> None:
    large = [{"n": number, "text": f"{number}" * (2 << 20)} for number in range(2)]
    store.put(ALEX, "fruit", large[0])
    done = threading.Event()

    def replace() -> None:
        with Client(server.target) as own:
            for number in range(8):
                RecollectStore(own).put(ALEX, "fruit", large[number % 2])
        done.set()

    thread = threading.Thread(target=replace)
    thread.start()
    read: list[Any] = []
    while not done.is_set():
        item = store.get(ALEX, "fruit")
        read.append(item and item.value["n"])
    thread.join()
    assert read
    assert set(read) <= {0, 1}


def test_an_item_that_is_changed_keeps_its_creation(client: Client, clock: MovableClock) -> None:
    store = RecollectStore(client, clock=lambda: clock() / 1000)
    store.put(ALEX, "tea", {"n": 1})
    before = store.get(ALEX, "tea")
    clock.move(1000)
    store.put(ALEX, "tea", {"n": 2})
    after = store.get(ALEX, "tea")
    assert before is not None
    assert after is not None
    assert (after.value, after.created_at) == ({"n": 2}, before.created_at)
    assert (after.updated_at - before.updated_at).total_seconds() == 1


def test_what_is_deleted_is_gone_to_the_last_byte(
    server: RunningServer, store: RecollectStore, client: Client
) -> None:
    large = {"n": 1, "text": "apricot " * 400_000}
    store.put(ALEX, "fruit", large)
    for value in (large, large | {"n": 2}, {"n": 3}, large):
        store.put(ALEX, "fruit", value)
        item = store.get(ALEX, "fruit")
        assert item is not None
        assert item.value == value
        keys = client.checkpoints.list_records(THREAD, keys_only=True).records
        assert len(keys) == (1 if value == {"n": 3} else 3)  # no piece of an earlier value
    store.put(("memories", "sam"), "fruit", {"n": 4})
    store.delete(ALEX, "fruit")
    store.delete(ALEX, "never there")
    assert files_with(server.data_dir, "alex") == []
    assert values(store) == [4]


def test_a_batch_reads_first_and_its_last_write_of_a_key_counts(store: RecollectStore) -> None:
    store.put(ALEX, "a", {"n": 1})
    store.put(ALEX, "gone", {"n": 1})
    ops: list[Op] = [
        PutOp(ALEX, "a", {"n": 2}),
        PutOp(ALEX, "gone", None),
        GetOp(ALEX, "a"),
        PutOp(ALEX, "a", {"n": 3}),
        SearchOp(ALEX, filter={"n": 1}),
        PutOp(ALEX, "b", None),
        PutOp(ALEX, "b", {"n": 4}),
    ]
    results = store.batch(ops)
    assert isinstance(results[2], Item)
    assert (results[2].value, len(results[4] or ())) == ({"n": 1}, 2)  # type: ignore[arg-type]
    assert [it for at, it in enumerate(results) if at not in {2, 4}] == [None] * 5
    assert sorted(values(store, *ALEX)) == [3, 4]


def test_filters_compare_and_a_value_of_another_kind_does_not_fit(store: RecollectStore) -> None:
    store.put(ALEX, "a", {"n": 1, "day": "2026-02-01", "in": {"a": 1, "b": [1, 2]}})
    store.put(ALEX, "b", {"n": 2, "day": "2026-03-01", "in": None})
    store.put(ALEX, "c", {"n": 3, "day": 4})
    for condition, expected in (
        ({"day": {"$gte": "2026-02-02"}}, [2]),
        ({"day": {"$lt": 5}}, [3]),
        ({"n": {"$gt": 1, "$ne": 3}}, [2]),
        ({"n": {"$lte": math.inf}}, [1, 2, 3]),
        ({"in": {"b": [1, 2]}}, [1]),
        ({"in": {"b": [1]}}, []),
        ({"in": None}, [2, 3]),
        ({"none": {"$eq": None}}, [1, 2, 3]),
    ):
        assert sorted(values(store, *ALEX, filter=condition)) == expected, condition
    with pytest.raises(ValueError, match="no operator \\$like"):
        store.search(ALEX, filter={"day": {"$like": "2026%"}})


def test_what_has_a_time_to_live_ends_and_reads_prolong_it(
    server: RunningServer, client: Client, clock: MovableClock
) -> None:
    store = RecollectStore(client, ttl={"default_ttl": 10}, clock=lambda: clock() / 1000)
    store.put(ALEX, "read", {"n": 1})
    store.put(ALEX, "found", {"n": 2})
    store.put(ALEX, "unread", {"n": 3})
    store.put(ALEX, "stays", {"n": 4}, ttl=None)
    clock.move(9 * 60_000)
    assert store.get(ALEX, "read") is not None
    assert values(store, *ALEX, filter={"n": 2}) == [2]
    assert store.get(ALEX, "unread", refresh_ttl=False) is not None
    clock.move(2 * 60_000)
    assert sorted(values(store, *ALEX, refresh_ttl=False)) == [1, 2, 4]
    assert store.sweep_ttl() == 1
    assert store.sweep_ttl() == 0
    assert files_with(server.data_dir, "/unread") == []
    # What prolonged a value does not prolong the next one of its key.
    store.put(ALEX, "read", {"n": 5}, ttl=1)
    clock.move(30_000)
    assert store.get(ALEX, "read", refresh_ttl=False) is not None
    clock.move(31_000)
    assert store.get(ALEX, "read") is None
    clock.move(20 * 60_000)
    assert store.sweep_ttl() == 2
    assert values(store) == [4]
    keys = client.checkpoints.list_records(THREAD, keys_only=True).records
    assert len(keys) == 1


def test_a_read_writes_at_most_twenty_times_in_a_time_to_live(
    client: Client, clock: MovableClock
) -> None:
    store = RecollectStore(client, ttl={"default_ttl": 10}, clock=lambda: clock() / 1000)
    store.put(ALEX, "tea", {"n": 1})
    [thread] = client.checkpoints.list_threads()
    for _ in range(100):
        clock.move(6_000)
        assert store.get(ALEX, "tea") is not None
    [grown] = client.checkpoints.list_threads()
    assert 0 < grown.bytes - thread.bytes < 20 * 300


def test_threads_that_write_at_once_lose_nothing(server: RunningServer) -> None:
    def write(number: int) -> None:
        with Client(server.target) as own:
            store = RecollectStore(own)
            for each in range(5):
                store.put((f"t{number}",), str(each), {"n": each})
                store.put(("shared",), "one", {"n": number})
            store.delete((f"t{number}",), "0")

    threads = [threading.Thread(target=write, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Client(server.target) as client:
        store = RecollectStore(client)
        assert [sorted(values(store, f"t{number}")) for number in range(4)] == [[1, 2, 3, 4]] * 4
        assert len(store.search(("shared",))) == 1


def test_an_encrypting_serializer_leaves_no_value_to_the_server(
    server: RunningServer, client: Client
) -> None:
    store = RecollectStore(client, serde=reversing())
    store.put(ALEX, "fruit", {"n": "apricot"})
    assert values(store) == ["apricot"]
    [record] = client.checkpoints.list_records(THREAD).records
    assert b"apricot" not in record.value


def test_a_checkpointer_that_removes_runs_leaves_stores_and_other_programs_alone(
    store: RecollectStore, client: Client
) -> None:
    saver = RecollectSaver(client)
    builder = StateGraph(MessagesState)
    builder.add_node("put", lambda _, *, store: store.put(ALEX, "tea", {"n": 1}))
    builder.add_edge(START, "put")
    graph = builder.compile(checkpointer=saver, store=store)
    config: Any = {"configurable": {"thread_id": "alex"}, "metadata": {"run_id": "r1"}}
    graph.invoke({"messages": [HumanMessage("hi")]}, config, durability="sync")
    client.checkpoints.put_records("another program's", [CheckpointRecord("a", b"1")])
    saver.delete_for_runs(["r1"])
    assert values(store) == [1]
    left = {it.thread_id for it in client.checkpoints.list_threads()}
    assert left == {THREAD, "another program's"}
