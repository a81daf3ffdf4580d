"""ChatGPT's data export: `conversations.json`, or several named `conversations-000.json` and so on.

A conversation is a tree of messages (`mapping`): each edited question and each answer that was
asked for again begins a branch. The one that ends at `current_node` is the conversation as its
owner saw it last.
"""

import json
from typing import Any

from recollect import Attachment, Role, ToolCall
from recollect.cli.plans import Plan, Skip
from recollect.cli.products.talks import (
    Talk,
    attachment,
    mapping,
    objects,
    seconds,
    text_of,
)
from recollect.cli.transcript import Damaged

NAME = "chatgpt"
_NEW = "New chat"
"""The title of a conversation that the product has not named."""
_SHOWN_TO_ALL = {"", "all", "assistant"}
_NOT_SAID = {"user_editable_context", "model_editable_context", "reasoning_recap"}


def is_conversation(value: Any) -> bool:
    """Return whether an item is a conversation of this product."""
    return isinstance(value, dict) and isinstance(value.get("mapping"), dict)


def plan(fields: Any, where: str) -> Plan | Skip:
    """Return the plan of a conversation. Raises Damaged."""
    nodes = mapping(mapping(fields, "conversation").get("mapping"), "mapping")
    own = text_of(fields.get("conversation_id")) or text_of(fields.get("id"))
    if not own:
        raise Damaged("conversation_id: it is missing")
    title = text_of(fields.get("title"))
    branch = _branch(nodes, fields.get("current_node"))
    talk = Talk(
        NAME,
        own,
        where,
        title="" if title == _NEW else title,
        create_time=seconds(fields.get("create_time")),
        url=f"https://chatgpt.com/c/{own}",
        is_archived=fields.get("is_archived") is True,
    )
    on_branch = set(branch)
    talk.branches = sum(
        _is_said(node.get("message"))
        for name, node in nodes.items()
        if isinstance(node, dict) and name not in on_branch
    )
    for name in branch:
        message = nodes[name].get("message")
        if message is None:
            continue  # the root
        if _is_said(message):
            _add(talk, message, name)
        else:
            talk.hidden += 1
    return talk.plan()


def _branch(nodes: dict[str, Any], end: Any) -> list[str]:
    """Return the nodes from the root to the end. Raises Damaged."""
    if not isinstance(end, str) or end not in nodes:
        # Some conversations lack it: the newest node without children is where it ended.
        leaves = [
            name for name, node in nodes.items() if isinstance(node, dict) and not _children(node)
        ]
        if not leaves:
            raise Damaged("current_node: it is missing, and the mapping has no end")
        end = max(leaves, key=lambda name: _time_of(nodes[name]))
    branch: list[str] = []
    passed = set()
    while isinstance(end, str) and end in nodes:
        if end in passed:
            raise Damaged(f"mapping: node {end} is its own ancestor")
        passed.add(end)
        branch.append(end)
        end = mapping(nodes[end], f"mapping: node {end}").get("parent")
    return branch[::-1]


def _children(node: dict[str, Any]) -> bool:
    return bool(node.get("children"))


def _time_of(node: dict[str, Any]) -> float:
    message = node.get("message")
    time = seconds(message.get("create_time")) if isinstance(message, dict) else None
    return time.timestamp() if time else 0.0


def _is_said(message: Any) -> bool:
    """Return whether a message belongs to what the owner sees."""
    if not isinstance(message, dict):
        return False
    metadata, content = message.get("metadata"), message.get("content")
    if not isinstance(content, dict) or text_of(content.get("content_type")) in _NOT_SAID:
        return False
    is_hidden = isinstance(metadata, dict) and (
        metadata.get("is_visually_hidden_from_conversation") is True
        or metadata.get("is_user_system_message") is True
    )
    return not is_hidden and _role(message) in {"user", "assistant", "tool"}


def _role(message: dict[str, Any]) -> str:
    author = message.get("author")
    return text_of(author.get("role")) if isinstance(author, dict) else ""


def _add(talk: Talk, message: dict[str, Any], name: str) -> None:
    content = message["content"]
    metadata = message.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    own, time = text_of(message.get("id")) or name, seconds(message.get("create_time"))
    text, files = _read(content)
    match _role(message):
        case "user":
            files |= {
                text_of(it.get("id")): attachment(
                    f"file-service://{text_of(it.get('id'))}",
                    text_of(it.get("name")),
                    text_of(it.get("mime_type")) or text_of(it.get("mimeType")),
                    it.get("size"),
                )
                for it in objects(metadata.get("attachments"))
                if it.get("id")
            }
            talk.say(Role.USER, own, text, time, attachments=tuple(files.values()))
        case "tool":
            author = text_of(message["author"].get("name"))
            talk.result(own, author, text, time, files=[it.uri for it in files.values()])
        case _:
            recipient = text_of(message.get("recipient"))
            model = text_of(metadata.get("model_slug"))
            if content.get("content_type") == "thoughts":
                for it in objects(content.get("thoughts")):
                    parts = (text_of(it.get("summary")), text_of(it.get("content")))
                    talk.think("\n".join(filter(None, parts)))
            elif recipient not in _SHOWN_TO_ALL:
                call = ToolCall(own, recipient, text)
                talk.say(Role.ASSISTANT, own, "", time, calls=(call,), model=model)
            elif text_of(message.get("channel")) == "analysis":
                talk.think(text)
            else:
                talk.say(
                    Role.ASSISTANT, own, text, time, attachments=tuple(files.values()), model=model
                )


def _read(content: dict[str, Any]) -> tuple[str, dict[str, Attachment]]:
    """Return the text of a message's content, and its files by their ids."""
    files: dict[str, Attachment] = {}
    match content.get("content_type"):
        case "code" if text_of(content.get("language")) not in {"", "unknown", "json"}:
            return f"```{content['language']}\n{text_of(content.get('text'))}\n```", files
        case "tether_quote":
            return _joined(content, "title", "url", "text"), files
        case "tether_browsing_display":
            return _joined(content, "summary", "result"), files
    texts = []
    parts = content.get("parts")
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            pointer = text_of(part.get("asset_pointer"))
            if pointer:
                kind = text_of(part.get("content_type")).partition("_")[0]
                media = {"image": "image/*", "audio": "audio/*", "video": "video/*"}.get(kind, "")
                files[pointer.rpartition("/")[2]] = attachment(
                    pointer, media_type=media, size=part.get("size_bytes")
                )
            texts.append(text_of(part.get("text")))
    if not any(texts):
        texts = [text_of(content.get(name)) for name in ("text", "result", "content")]
    if not any(texts) and not files and text_of(content.get("content_type")) not in {"text", ""}:
        rest = {name: value for name, value in content.items() if value and name != "content_type"}
        texts = (
            [json.dumps(rest, ensure_ascii=False)] if rest.keys() - {"parts", "language"} else []
        )
    return "\n".join(filter(None, texts)), files


def _joined(content: dict[str, Any], *names: str) -> str:
    return "\n".join(filter(None, (text_of(content.get(name)) for name in names)))
