"""The prose of a message: its sentences, without what no person said in words.

Left out are code, command lines, traces, JSON, data URLs and other runs without spaces, what
programs put around a message (thinking in tags, the caveats of command lines of agents), headings,
tables and marks. What looks like code is recognised by its share of signs.
"""

import re

from recollect_server.text.text import GERMAN_MONTH, sentences

_MOST = 20_000  # characters of a message that are read: the rest of a longer one is seldom prose
_SIGNS_PER_CHARACTER = 1 / 10
_LONG_RUN = 120  # characters without a space
_BLOCK = re.compile(
    r"(```|~~~).*?(?:\1|\Z)"
    r"|<(think(?:ing)?|reasoning|scratchpad|[a-z]{1,30}(?:-[a-z]{1,30}){1,4})\b[^<>\n]{0,200}>.*?(?:</\2>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
"""Blocks of code, thinking in tags, and what programs put into tags of several words."""
_NO_PROSE = re.compile(
    rf"data:[\w/+.-]+;base64,\S*|(?=[!-~]{{{_LONG_RUN}}})[!-~]+"
    r"|^[ \t]*(?:\|[^\n]*\|[ \t]*|[-*_=]{3,}[ \t]*"
    r"|Traceback \(most recent[^\n]*(?:\n[ \t]+[^\n]*)*|File \"[^\n]*|at [\w.$<>/ ]+\([^\n]*"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:[^\n]*|[$%] [a-z./][^\n]*"
    r"|(?:async )?(?:def|func|function|class) \w+ ?[(:][^\n]*(?:\n[ \t]+[^\n]*)*|(?:import|from) [\w.]+(?:;| import )[^\n]*"
    r"|Caveat: The messages below were generated[^\n]*|\[Request interrupted[^\n]*"
    r"|(?:Sent from my|Von meinem|Envoyé de mon|Enviado d[eo] (?:mi|meu)|Inviato dal mio) [^\n.!?]{1,30})$",
    re.MULTILINE,
)
_HEADING = re.compile(r"^[ \t]*(?:#{1,6}[ \t][^\n]*|\*\*[^*\n]{1,120}\*\*:?[ \t]*)$", re.MULTILINE)
# Each part stops where the next one could begin: else a message of nothing but such marks would
# take seconds.
_MARKS = re.compile(
    rf"\*{{2,}}(?=\S)|(?<=\S)\*{{2,}}|(?<!\w)[*_`]+(?=\S)|(?<=\S)[*_`]+(?!\w)|`+"
    rf"|^[ \t]*(?:>[> \t]*)?(?:[-•+*]|#{{1,6}}|\d{{1,3}}[.)](?!\d"
    rf"|[ \t]+{GERMAN_MONTH}))[ \t]+"
    r"|\{[a-z]{1,20}\}|^[ \t]*>[> \t]*|!?\[([^\[\]]*)\]\([^()]*\)|</?[a-z]\w*(?: [^<>\n]{0,200})?>",
    re.MULTILINE,
)
_SIGNS = re.compile(r"[{}<>=;$\\|@\[\]]|\w\(|\)\.|::|->|\":|\w/\w|\w_\w")
_WRAP = re.compile(r"(?<=[\w,;])[ \t]*\n[ \t]*(?=[a-zß-öø-ÿα-ωа-я])")
"""A line's end within a sentence."""


def prose_of(content: str) -> list[str]:
    """Return the sentences of a message that are prose, without marks; of headings alone, these."""
    text = _NO_PROSE.sub("\n", _BLOCK.sub("\n", content[:_MOST]))
    return _sentences(_HEADING.sub("\n", text)) or _sentences(text)


def _sentences(text: str) -> list[str]:
    plain = _MARKS.sub(
        lambda mark: mark.group(1) or ("" if mark.group()[0] in "*_`" else " "), text
    )
    return [it for it in sentences(plain) if any(map(str.isalnum, it)) and not is_code(it)]


def unwrapped(content: str) -> str:
    """Return a text without the ends of lines within its sentences."""
    return _WRAP.sub(" ", content)


def is_code(text: str) -> bool:
    """Return whether a line has the signs of code, of a command or of data rather than prose."""
    signs = len(_SIGNS.findall(text))
    return signs > 2 and signs > len(text) * _SIGNS_PER_CHARACTER
