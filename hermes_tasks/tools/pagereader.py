"""Turns what a web server sent into readable text. Run by path by ``web``; see ``aside`` for how.

A process of its own, because a page of two megabytes can be made to take minutes and gigabytes: the kernel ends this
process when its time or memory is up. The question is ``{kind, charset, whole, url, seconds, most_chars}`` and then
the body; the answer is ``{text, chars}`` or ``{error}``.
"""

import codecs
import contextlib
import json
import re
import resource
import signal
import sys
from collections.abc import Iterator
from typing import Any

_MEMORY_BYTES = 1024 * 1024 * 1024
_HTML = ("text/html", "application/xhtml+xml")
_META_CHARSET = re.compile(rb"(?i)charset\s*=\s*[\"']?([\w.:-]{1,40})")
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
#: Names that Python knows and the web does not: one takes minutes, others make what is no text.
_NO_CHARSETS = ("idna", "punycode", "raw-unicode-escape", "unicode-escape", "utf-7")
_NO_TEXT = ("script", "style", "noscript", "template")


def main() -> None:
    """Read one page and print its text."""
    asked = json.loads(sys.stdin.buffer.readline())
    signal.alarm(int(asked["seconds"]) + 2)  # not handled, so it ends the process whatever it is doing
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    sys.stdout.write(json.dumps(_answer(sys.stdin.buffer.read(), asked)) + "\n")


def _answer(body: bytes, asked: dict[str, Any]) -> dict[str, Any]:
    text = decoded(body, asked["charset"], whole=asked["whole"])
    if "\0" in text[:8192]:
        return {"error": f"it is said to be {asked['kind']}, but it is binary"}
    if asked["kind"] in _HTML:
        text = _extracted(text, asked["url"])
    text = text.encode("utf-8", "replace").decode()  # half of a surrogate pair breaks whoever stores it
    return {"text": text[: asked["most_chars"]], "chars": len(text)}


def _extracted(page: str, url: str) -> str:
    """The main text of a page as Markdown; of one without a main text, all its words."""
    import lxml.html  # noqa: PLC0415 - these take half a second, and what is no HTML does without them
    import trafilatura  # noqa: PLC0415

    found = trafilatura.extract(page, url=url, include_links=True, include_tables=True, output_format="markdown")
    if found:
        return found
    tree = lxml.html.document_fromstring(f"<html>{page}".encode(), parser=lxml.html.HTMLParser(encoding="utf-8"))
    for element in list(tree.iter(*_NO_TEXT)):
        element.drop_tree()
    return " ".join(tree.text_content().split())


def decoded(body: bytes, charset: str | None, *, whole: bool = True) -> str:
    """By its first bytes, else by the header's word, else the page's own, else by what it looks like."""
    for name, errors in _candidates(body, charset):
        with contextlib.suppress(LookupError, ValueError):
            b"  ".decode(name)  # refuses what makes bytes or nothing, such as base64
            if codecs.lookup(name).name not in _NO_CHARSETS:
                decoder = codecs.getincrementaldecoder(name)(errors)  # a body that was cut may end inside a character
                return decoder.decode(body, final=whole)
    return body.decode(errors="replace")


def _candidates(body: bytes, charset: str | None) -> Iterator[tuple[str, str]]:
    yield from ((name, "replace") for mark, name in _MARKS if body.startswith(mark))
    if charset:
        yield charset, "replace"
    yield "utf-8", "strict"
    if said := _META_CHARSET.search(body[:2048]):
        yield said[1].decode("ascii"), "strict"
    from trafilatura.utils import detect_encoding  # noqa: PLC0415 - see above

    yield from ((name, "strict") for name in detect_encoding(body))


if __name__ == "__main__":
    main()
