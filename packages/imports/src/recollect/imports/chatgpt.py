"""ChatGPT's data export: `conversations.json`, or several named `conversations-000.json` and so on.

A conversation is a tree of messages (`mapping`): each edited question and each answer that was
asked for again begins a branch. The one that ends at `current_node` is the conversation as its
owner saw it last.
"""

import json
import re
from typing import Any

from recollect import Attachment, Role, ToolCall
from recollect.imports.forms import conversations
from recollect.imports.plans import Plan, Skip
from recollect.imports.talks import Talk, attachment
from recollect.imports.transcript import Damaged
from recollect.imports.trees import NOT_STATED, parent_of
from recollect.imports.values import (
    fields_of,
    flag_of,
    mapping,
    members,
    objects,
    pass_over,
    text_of,
)

NAME = "chatgpt"
_NEW = "New chat"
"""The title of a conversation that the product has not named."""
_SHOWN_TO_ALL = {"", "all", "assistant"}
_ANY_MARK = re.compile("[\ue200-\ue20f]")
_MARK = re.compile("(?P<space> ?)\ue200(?P<mark>[^\ue200\ue201]*)\ue201")
_NOT_SAID = {"user_editable_context", "model_editable_context", "reasoning_recap"}


def is_conversation(value: Any) -> bool:
    """Return whether an item is a conversation of this product."""
    return isinstance(value, dict) and isinstance(value.get("mapping"), dict)


def plan(fields: Any, where: str) -> Plan | Skip:
    """Return the plan of a conversation. Raises Damaged."""
    nodes = mapping(mapping(fields, "conversation").get("mapping"), "mapping")
    own = text_of(fields, "conversation_id") or text_of(fields, "id")
    if not own:
        raise Damaged("conversation_id: it is missing")
    title = text_of(fields, "title")
    talk = Talk(
        NAME,
        own,
        where,
        title="" if title == _NEW else title,
        create_time=fields.get("create_time"),
        update_time=fields.get("update_time"),
        url=f"https://chatgpt.com/c/{own}",
        is_archived=flag_of(fields, "is_archived"),
    )
    branch = _branch(talk, nodes, text_of(fields, "current_node"))
    on_branch = set(branch)
    for name, node in nodes.items():
        if name not in on_branch and _is_said(message := fields_of(node, "message")):
            talk.set_aside(_add, message=message, name=name)
    for name in branch:
        message = fields_of(nodes[name], "message")
        if not message:
            talk.hidden += nodes[name].get("parent") is not None  # else it is the root
        elif not _is_said(message):
            talk.hide(_read(fields_of(message, "content"))[0])
        elif not _add(talk, message, name):
            talk.hide()
    return talk.plan()


def _branch(talk: Talk, nodes: dict[str, Any], end: str) -> list[str]:
    """Return the nodes from the root to the end. Raises Damaged."""
    parents: dict[str, str | None] = {}
    times: dict[str, Any] = {}
    by_child: dict[str, str] = {}
    for name, node in nodes.items():
        node = mapping(node, f"mapping: node {name}")
        for child in members(node, "children", "text", str):
            by_child[child] = name
        parents[name] = parent_of(node, "parent")
        times[name] = fields_of(node, "message").get("create_time")
    for name, parent in parents.items():
        if parent == NOT_STATED:
            parents[name] = by_child.get(name, NOT_STATED)
    return talk.branch(parents, end, times)


def _is_said(message: dict[str, Any]) -> bool:
    """Return whether a message belongs to what the owner sees."""
    metadata, content = fields_of(message, "metadata"), fields_of(message, "content")
    is_hidden = (
        not content
        or text_of(content, "content_type") in _NOT_SAID
        or flag_of(metadata, "is_visually_hidden_from_conversation")
        or flag_of(metadata, "is_user_system_message")
    )
    return not is_hidden and _role(message) in {"user", "assistant", "tool"}


def _role(message: dict[str, Any]) -> str:
    return text_of(fields_of(message, "author"), "role")


def _add(talk: Talk, message: dict[str, Any], name: str) -> bool:
    """Add a message. Return False for an empty one."""
    content, metadata = fields_of(message, "content"), fields_of(message, "metadata")
    own, time = text_of(message, "id") or name, message.get("create_time")
    text, files = _read(content)
    match _role(message):
        case "user":
            files |= {
                text_of(it, "id"): attachment(
                    f"file-service://{text_of(it, 'id')}",
                    text_of(it, "name"),
                    text_of(it, "mime_type") or text_of(it, "mimeType"),
                    it.get("size"),
                )
                for it in objects(metadata, "attachments")
                if it.get("id")
            }
            return talk.say(Role.USER, own, text, time, attachments=files.values())
        case "tool":
            author = text_of(fields_of(message, "author"), "name")
            talk.result(own, author, text, time, files=[it.uri for it in files.values()])
        case _:
            recipient = text_of(message, "recipient")
            model = text_of(metadata, "model_slug")
            text = _without_marks(text, metadata)
            if content.get("content_type") == "thoughts":
                for it in objects(content, "thoughts"):
                    parts = (text_of(it, "summary"), text_of(it, "content"))
                    talk.think("\n".join(filter(None, parts)))
            elif recipient not in _SHOWN_TO_ALL:
                return talk.say(
                    Role.ASSISTANT,
                    own,
                    "",
                    time,
                    calls=[ToolCall(own, recipient, text)],
                    model=model,
                )
            elif text_of(message, "channel") == "analysis":
                talk.think(text)
            else:
                files_ = files.values()
                return talk.say(Role.ASSISTANT, own, text, time, attachments=files_, model=model)
    return True


def _without_marks(text: str, metadata: dict[str, Any]) -> str:
    """Return a text as the product shows it: without its private marks of citations, which are
    replaced by their links where the export has them, and with the names within entities.
    """
    if not _ANY_MARK.search(text):
        return text
    references = objects(metadata, "content_references")
    links = {text_of(it, "matched_text"): text_of(it, "alt") for it in references}
    return _ANY_MARK.sub("", _MARK.sub(lambda mark: _shown(mark, links), text))


def _shown(mark: re.Match[str], links: dict[str, str]) -> str:
    """Return the link or the name that a mark stands for, with the space before it; nothing for a
    source without a link.
    """
    if link := links.get(mark[0].lstrip(" ")):
        return f"{mark['space']}{link}"
    kind, *parts = mark["mark"].split("\ue202")
    name = ""
    if kind == "entity" and parts:
        try:
            values = json.loads(parts[0])
            name = values[1] if isinstance(values, list) and isinstance(values[1], str) else ""
        except (ValueError, IndexError, RecursionError):
            name = ""
    elif kind in {"url", "link_title"} and parts:
        name = parts[0]
    return f"{mark['space']}{name}" if name else ""


def _read(content: dict[str, Any]) -> tuple[str, dict[str, Attachment]]:
    """Return the text of a message's content, and its files by their ids."""
    files: dict[str, Attachment] = {}
    match content.get("content_type"):
        case "code" if text_of(content, "language") not in {"", "unknown", "json"}:
            return f"```{content['language']}\n{text_of(content, 'text')}\n```", files
        case "tether_quote":
            return _joined(content, "title", "url", "text"), files
        case "tether_browsing_display":
            return _joined(content, "summary", "result"), files
    texts = []
    for part in members(content, "parts", "text and no object", str, dict):
        if isinstance(part, str):
            texts.append(part)
        else:
            part = fields_of(part, "audio_asset_pointer") or part  # of a voice, within the part
            if not {"asset_pointer", "text"} & part.keys():
                pass_over(part, "", "parts: nothing is read of a part", part)
            pointer = text_of(part, "asset_pointer")
            if pointer:
                kind = text_of(part, "content_type").partition("_")[0]
                media = {"image": "image/*", "audio": "audio/*", "video": "video/*"}.get(kind, "")
                files[pointer.rpartition("/")[2]] = attachment(
                    pointer, media_type=media, size=part.get("size_bytes")
                )
            texts.append(text_of(part, "text"))
    if not any(texts):
        texts = [text_of(content, name) for name in ("text", "result", "content")]
    if not any(texts) and not files and text_of(content, "content_type") not in {"text", ""}:
        rest = {name: value for name, value in content.items() if value and name != "content_type"}
        texts = (
            [json.dumps(rest, ensure_ascii=False)] if rest.keys() - {"parts", "language"} else []
        )
    return "\n".join(filter(None, texts)), files


def _joined(content: dict[str, Any], *names: str) -> str:
    return "\n".join(filter(None, (text_of(content, name) for name in names)))


FORMAT = conversations(NAME, "ChatGPT", is_conversation, plan)
