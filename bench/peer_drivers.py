"""Drivers of other memory libraries: each stores messages and searches them, over JSON lines.

`python -P bench/peer_drivers.py DRIVER FOLDER MODEL [VECTORS]`

`bench.peers` starts this file in the virtual environment of one library, so it imports nothing of
Recollect, and each driver imports its library when it opens. `-P` keeps the names of this folder
out of the way of the libraries' own. A request is a line of JSON on the standard input, its answer
a line on the standard output; what a library prints goes to the standard error.

Where a library takes an embedding function, it gets `MiniLM`, the model that Recollect ships, so
that all of them rank by the same vectors. VECTORS is a file in which the vectors of texts are kept
for the next driver.
"""

import asyncio
import json
import os
import sqlite3
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

DIMENSIONS = 384
_TOKENS = 256
"""Word pieces of a text that are embedded, as sentence-transformers cuts it for this model."""
_USER, _APP = "user", "bench"


@dataclass(frozen=True, slots=True)
class Message:
    """A message to store. Its text names the speaker and the date."""

    id: str
    conversation: str
    role: str
    speaker: str
    time: str
    text: str


class MiniLM:
    """all-MiniLM-L6-v2 from a folder with `model.int8w.onnx` and `tokenizer.json`."""

    def __init__(self, folder: Path, vectors: str = "") -> None:
        self.folder = folder
        self.seconds = 0.0
        """Time spent in the model so far."""
        self._file: sqlite3.Connection | None = None
        if vectors:
            # Some libraries embed in threads of their own.
            self._file = sqlite3.connect(vectors, check_same_thread=False, isolation_level=None)
            self._file.execute("CREATE TABLE IF NOT EXISTS vectors(text PRIMARY KEY, vector)")
        self._model: Any = None
        self._tokenizer: Any = None

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the unit vectors of texts."""
        if self._file is None:
            return self._embedded(texts)
        vectors = []
        for text in texts:
            rows = self._file.execute("SELECT vector FROM vectors WHERE text = ?", (text,))
            if row := rows.fetchone():
                vectors.append(json.loads(row[0]))
            else:
                vectors += self._embedded([text])
                new = (text, json.dumps(vectors[-1]))
                self._file.execute("INSERT OR IGNORE INTO vectors VALUES (?, ?)", new)
        return vectors

    def _embedded(self, texts: Sequence[str]) -> list[list[float]]:
        import numpy as np

        if self._model is None:
            self.load()
        began = time.perf_counter()
        encoded = self._tokenizer.encode_batch(list(texts))
        inputs = {
            "input_ids": np.array([it.ids for it in encoded], dtype=np.int64),
            "attention_mask": np.array([it.attention_mask for it in encoded], dtype=np.int64),
        }
        [vectors] = self._model.run(None, inputs)
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        made: list[list[float]] = vectors.astype(float).tolist()
        self.seconds += time.perf_counter() - began
        return made

    def load(self) -> None:
        """Load the model, which else the first text does."""
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        # Spinning threads would take the processor from whatever is measured beside them.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._model = onnxruntime.InferenceSession(self.folder / "model.int8w.onnx", options)
        self._tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(_TOKENS)
        self._tokenizer.enable_padding()


class Driver(ABC):
    """A library that keeps messages."""

    def __init__(self, folder: Path, embed: MiniLM) -> None:
        self.folder, self.embed = folder, embed
        self.closing = ExitStack()

    @abstractmethod
    def store(self, message: Message) -> None:
        """Keep a message."""

    @abstractmethod
    def search(self, query: str, limit: int) -> list[str]:
        """Return the ids of the messages that fit best, best first."""

    @abstractmethod
    def holds(self, message: Message) -> bool:
        """Return whether a message can be read."""

    def save(self) -> None:  # noqa: B027 - most libraries have written by then
        """Write what is kept in memory to the folder, where the library leaves it to its user."""


class PlainFts5(Driver):
    """SQLite's full text: the words that are no stop words, ranked by BM25, in a file."""

    def __init__(self, folder: Path, embed: MiniLM) -> None:
        super().__init__(folder, embed)
        from bench.plain import PlainFts5 as Index

        self._index = Index(str(folder / "texts.db"))

    def store(self, message: Message) -> None:
        """Insert a row, in a transaction of its own."""
        self._index.add(message.id, 0, message.text)

    def search(self, query: str, limit: int) -> list[str]:
        """Match any of the words."""
        return self._index.best(query, limit, None)

    def holds(self, message: Message) -> bool:
        """Read the row."""
        return self._index.holds(message.id)


class PlainVectors(Driver):
    """Vectors in a numpy array in memory, all compared with the question's: what a store of
    vectors finds when it ranks by nothing else.
    """

    def __init__(self, folder: Path, embed: MiniLM) -> None:
        super().__init__(folder, embed)
        import numpy as np

        self._ids: list[str] = []
        self._vectors = np.empty((0, DIMENSIONS), dtype=np.float32)

    def store(self, message: Message) -> None:
        """Embed and keep it."""
        import numpy as np

        vector = np.array(self.embed([message.text]), dtype=np.float32)
        self._vectors = np.concatenate([self._vectors, vector])
        self._ids.append(message.id)

    def search(self, query: str, limit: int) -> list[str]:
        """Rank all by the cosine."""
        import numpy as np

        scores = self._vectors @ np.array(self.embed([query])[0], dtype=np.float32)
        return [self._ids[at] for at in np.argsort(-scores, kind="stable")[:limit]]

    def holds(self, message: Message) -> bool:
        """Look in the list."""
        return message.id in self._ids


class OpenAIAgents(Driver):
    """OpenAI Agents SDK: SQLiteSession in a file. It offers no search."""

    def __init__(self, folder: Path, embed: MiniLM) -> None:
        super().__init__(folder, embed)
        from agents import SQLiteSession

        self._session = SQLiteSession
        self._file = folder / "sessions.db"
        self._open: dict[str, Any] = {}
        self._run = self.closing.enter_context(asyncio.Runner()).run

    def store(self, message: Message) -> None:
        """Add an item to the session of its conversation."""
        if message.conversation not in self._open:
            self._open[message.conversation] = self._session(message.conversation, self._file)
        session = self._open[message.conversation]
        self._run(session.add_items([{"role": message.role, "content": message.text}]))

    def search(self, query: str, limit: int) -> list[str]:  # noqa: ARG002 - there is none
        """Refuse: a session has no search."""
        raise TypeError("SQLiteSession offers no search: set `searches` of its peer to False")

    def holds(self, message: Message) -> bool:
        """Read the session."""
        session = self._session(message.conversation, self._file)
        items: Any = self._run(session.get_items())
        session.close()
        return any(item["content"] == message.text for item in items)


class LangGraphStore(Driver):
    """LangGraph: a store with an index of vectors."""

    namespace = ("memories", _USER)

    def __init__(self, folder: Path, embed: MiniLM) -> None:
        super().__init__(folder, embed)
        # A class that is not a function would be taken for LangChain's own interface.
        self.index = {"dims": DIMENSIONS, "embed": lambda texts: embed(texts), "fields": ["text"]}
        self._store = self.open()

    def open(self) -> Any:
        """Return the store in memory."""
        from langgraph.store.memory import InMemoryStore

        return InMemoryStore(index=self.index)  # type: ignore[arg-type]

    def store(self, message: Message) -> None:
        """Put an item."""
        self._store.put(self.namespace, message.id, {"text": message.text})

    def search(self, query: str, limit: int) -> list[str]:
        """Search the namespace."""
        return [it.key for it in self._store.search(self.namespace, query=query, limit=limit)]

    def holds(self, message: Message) -> bool:
        """Get the item."""
        return self._store.get(self.namespace, message.id) is not None


class LangGraphSqlite(LangGraphStore):
    """LangGraph: the same in SQLite."""

    def open(self) -> Any:
        """Return the store in a file."""
        from langgraph.store.sqlite import SqliteStore

        path = str(self.folder / "store.db")
        store = self.closing.enter_context(SqliteStore.from_conn_string(path, index=self.index))
        store.setup()
        return store


class GoogleAdk(Driver):
    """Google ADK: InMemoryMemoryService, which matches words and returns ten."""

    def __init__(self, folder: Path, embed: MiniLM) -> None:
        super().__init__(folder, embed)
        from google.adk.events import Event
        from google.adk.memory import InMemoryMemoryService
        from google.genai.types import Content, Part

        self._event, self._content, self._part = Event, Content, Part
        self._memory = InMemoryMemoryService()
        self._run = self.closing.enter_context(asyncio.Runner()).run

    def store(self, message: Message) -> None:
        """Add an event to the memory."""
        role = "model" if message.role == "assistant" else "user"
        event = self._event(
            id=message.id,
            author=message.speaker,
            timestamp=datetime.fromisoformat(message.time).timestamp(),
            content=self._content(role=role, parts=[self._part(text=message.text)]),
        )
        adding = self._memory.add_events_to_memory(
            app_name=_APP, user_id=_USER, events=[event], session_id=message.conversation
        )
        self._run(adding)

    def search(self, query: str, limit: int) -> list[str]:
        """Search the user's memory."""
        response = self._run(self._memory.search_memory(app_name=_APP, user_id=_USER, query=query))
        return [it.id for it in response.memories][:limit]

    def holds(self, message: Message) -> bool:
        """Search for the text itself."""
        return message.id in self.search(message.text, 10)


class Chroma(Driver):
    """Chroma: a persistent collection."""

    def __init__(self, folder: Path, embed: MiniLM) -> None:
        super().__init__(folder, embed)
        import chromadb
        from chromadb.config import Settings

        class Function(chromadb.EmbeddingFunction[Any]):  # type: ignore[misc]
            def __init__(self) -> None:
                pass

            def __call__(self, input: Any) -> Any:  # noqa: A002 - the interface's name
                return embed(input)

            @staticmethod
            def name() -> str:
                return "bench-minilm"

            @staticmethod
            def build_from_config(_config: Any) -> Any:
                return Function()

            def get_config(self) -> dict[str, Any]:
                return {}

        client = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
        self._collection = client.get_or_create_collection(
            "messages", embedding_function=Function()
        )

    def store(self, message: Message) -> None:
        """Add a document."""
        about = {"speaker": message.speaker, "time": message.time}
        self._collection.add(ids=[message.id], documents=[message.text], metadatas=[about])

    def search(self, query: str, limit: int) -> list[str]:
        """Query the collection."""
        answer: list[str] = self._collection.query(query_texts=[query], n_results=limit)["ids"][0]
        return answer

    def holds(self, message: Message) -> bool:
        """Get the document."""
        return bool(self._collection.get(ids=[message.id])["ids"])


class Mem0(Driver):
    """mem0: messages verbatim (`infer=False`), over its default vector store, Qdrant in a file."""

    def __init__(self, folder: Path, embed: MiniLM) -> None:
        super().__init__(folder, embed)
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder)}
        from mem0 import Memory
        from mem0.embeddings.base import EmbeddingBase

        class Embedding(EmbeddingBase):  # type: ignore[misc]
            def __init__(self) -> None:
                pass

            def embed(self, text: str, *_: object, **__: object) -> list[float]:
                return embed([text])[0]

            def embed_batch(self, texts: list[str], *_: object, **__: object) -> Any:
                return embed(texts)

        # No key is used: nothing asks the language model, and the embedding model is replaced.
        unused = {"provider": "openai", "config": {"api_key": "unused"}}
        store = {"path": str(folder / "qdrant"), "on_disk": True}
        self._memory = Memory.from_config(
            {
                "llm": unused,
                "embedder": unused,
                "vector_store": {
                    "provider": "qdrant",
                    "config": store | {"embedding_model_dims": DIMENSIONS},
                },
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._memory.embedding_model = Embedding()

    def store(self, message: Message) -> None:
        """Add a message without inference."""
        it = {"role": message.role, "content": message.text}
        about = {"message": message.id, "time": message.time}
        self._memory.add([it], user_id=_USER, infer=False, metadata=about)

    def search(self, query: str, limit: int) -> list[str]:
        """Search the user's memories."""
        answer = self._memory.search(query, top_k=limit, filters={"user_id": _USER})
        return [it["metadata"]["message"] for it in answer["results"]]

    def holds(self, message: Message) -> bool:
        """List the memories with the message's id."""
        about = {"user_id": _USER, "message": message.id}
        return bool(self._memory.get_all(filters=about)["results"])


class McpMemory(Driver):
    """mcp-memory-service: its SQLite store, through the service behind its tools."""

    mode = "semantic"

    def __init__(self, folder: Path, embed: MiniLM) -> None:
        super().__init__(folder, embed)
        import numpy as np

        # Read when its modules are imported; all that it writes stays in the folder.
        os.environ |= {"HOME": str(folder), "MCP_MEMORY_BASE_DIR": str(folder)}
        from mcp_memory_service import embeddings
        from mcp_memory_service.services.memory_service import MemoryService
        from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage

        class Model:
            embedding_dimension = DIMENSIONS

            def encode(self, texts: Any, **_: object) -> Any:
                one = isinstance(texts, str)
                return np.array(embed([texts] if one else texts), dtype=np.float32)

        embeddings.get_onnx_embedding_model = lambda *_, **__: Model()
        self._run = self.closing.enter_context(asyncio.Runner()).run
        self._storage = SqliteVecMemoryStorage(str(folder / "memory.db"))
        self._run(self._storage.initialize())
        self._service = MemoryService(self._storage)

    def store(self, message: Message) -> None:
        """Store a memory of its conversation, which keeps it from being taken for a duplicate."""
        answer = self._run(
            self._service.store_memory(
                message.text,
                conversation_id=message.conversation,
                metadata={"message": message.id, "time": message.time},
            )
        )
        if not answer["success"] and "uplicate" not in answer["error"]:
            raise RuntimeError(answer["error"])

    def search(self, query: str, limit: int) -> list[str]:
        """Search as the tool memory_search does."""
        searching = self._storage.search_memories(query=query, mode=self.mode, limit=limit)
        answer = self._run(searching)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return [(it.get("metadata") or it)["message"] for it in answer["memories"]]

    def holds(self, message: Message) -> bool:
        """Read the memory by its hash."""
        from mcp_memory_service.utils.hashing import generate_content_hash

        getting = self._storage.get_by_hash(generate_content_hash(message.text))
        return self._run(getting) is not None


class McpMemoryHybrid(McpMemory):
    """mcp-memory-service, asked for BM25 beside vectors."""

    mode = "hybrid"


class Txtai(Driver):
    """txtai: an index of vectors with its content, which its user saves."""

    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, folder: Path, embed: MiniLM) -> None:
        super().__init__(folder, embed)
        import numpy as np
        from txtai import Embeddings

        def vectors(texts: Sequence[str]) -> Any:
            return np.array(embed(texts), dtype=np.float32)

        self._path = str(folder / "index")
        self._index = Embeddings(transform=vectors, content=True, **self.options)
        if self._index.exists(self._path):
            # A function is not among what it saves.
            self._index.load(self._path, config={"transform": vectors})

    def store(self, message: Message) -> None:
        """Insert a text, or replace that of the same id."""
        self._index.upsert([(message.id, message.text, None)])

    def search(self, query: str, limit: int) -> list[str]:
        """Search the index."""
        return [it["id"] for it in self._index.search(query, limit)]

    def holds(self, message: Message) -> bool:
        """Select the text."""
        query, parameters = "select id from txtai where id = :id", {"id": message.id}
        return bool(self._index.search(query, 1, parameters=parameters))

    def save(self) -> None:
        """Save the index."""
        self._index.save(self._path)


class TxtaiHybrid(Txtai):
    """txtai with its keyword index beside the vectors."""

    options: ClassVar[dict[str, Any]] = {"hybrid": True}


class LlamaIndex(Driver):
    """LlamaIndex: VectorMemoryBlock, the long-term part of its Memory, over Chroma."""

    def __init__(self, folder: Path, embed: MiniLM) -> None:
        super().__init__(folder, embed)
        import chromadb
        from chromadb.config import Settings
        from llama_index.core.embeddings import BaseEmbedding
        from llama_index.core.memory import VectorMemoryBlock
        from llama_index.vector_stores.chroma import ChromaVectorStore

        class Embedding(BaseEmbedding):  # type: ignore[misc]
            def _get_text_embedding(self, text: str) -> list[float]:
                return embed([text])[0]

            def _get_query_embedding(self, query: str) -> list[float]:
                return embed([query])[0]

            async def _aget_query_embedding(self, query: str) -> list[float]:
                return embed([query])[0]

        client = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
        self._collection = client.get_or_create_collection("memory")
        self._block = VectorMemoryBlock(
            vector_store=ChromaVectorStore(chroma_collection=self._collection),
            embed_model=Embedding(),
            similarity_top_k=10,
        )
        self._ids: dict[str, str] = {}
        self._run = self.closing.enter_context(asyncio.Runner()).run

    def _chat(self, role: str, text: str) -> Any:
        from llama_index.core.llms import ChatMessage

        return [ChatMessage(role=role, content=text)]

    def store(self, message: Message) -> None:
        """Put a message into the block."""
        self._ids[message.text] = message.id
        self._run(self._block.aput(self._chat(message.role, message.text)))

    def search(self, query: str, limit: int) -> list[str]:
        """Get what the block recalls: one text, of the messages in their order."""
        text = self._run(self._block.aget(self._chat("user", query)))
        contents = [it.partition(">")[2] for it in text.split("</message>")]
        return [self._ids[it] for it in contents if it in self._ids][:limit]

    def holds(self, message: Message) -> bool:
        """Look for the text in the collection."""
        return bool(self._collection.get(where_document={"$contains": message.text})["ids"])


DRIVERS: dict[str, type[Driver]] = {
    "plain-fts5": PlainFts5,
    "plain-vectors": PlainVectors,
    "openai-agents": OpenAIAgents,
    "langgraph-memory": LangGraphStore,
    "langgraph-sqlite": LangGraphSqlite,
    "google-adk": GoogleAdk,
    "chroma": Chroma,
    "mem0": Mem0,
    "mcp-memory": McpMemory,
    "mcp-memory-hybrid": McpMemoryHybrid,
    "txtai": Txtai,
    "txtai-hybrid": TxtaiHybrid,
    "llama-index": LlamaIndex,
}


def answer(driver: Driver, request: dict[str, Any]) -> dict[str, Any]:
    """Carry out a request; times are of the library's own call."""
    messages = [Message(**it) for it in request.get("messages", [])]
    embedding = driver.embed.seconds
    match request["do"]:
        case "store":
            times = []
            for message in messages:
                began = time.perf_counter()
                driver.store(message)
                times.append(time.perf_counter() - began)
            return {"times": times, "embedding": driver.embed.seconds - embedding}
        case "search":
            began = time.perf_counter()
            ids = driver.search(request["query"], request["limit"])
            took = time.perf_counter() - began
            return {"ids": ids, "time": took, "embedding": driver.embed.seconds - embedding}
        case "holds":
            return {"count": sum(driver.holds(message) for message in messages)}
        case "load":
            driver.embed.load()
            return {}
        case "save":
            driver.save()
            return {}
    raise ValueError(f"unknown request: {request['do']}")


def main() -> None:
    """Answer requests until the standard input ends."""
    name, folder, model, *vectors = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    embed = MiniLM(Path(model), *vectors)
    driver = DRIVERS[name](Path(folder), embed)
    with driver.closing:
        print(json.dumps({"sqlite": sqlite3.sqlite_version}), file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps(answer(driver, json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
