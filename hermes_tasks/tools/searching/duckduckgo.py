"""DuckDuckGo without a key: the page it offers to browsers without scripts.

The page is no interface that anybody promised. Programs that ask often get a riddle for humans instead of results;
that is told as it is, and not solved. What the page looks like stands in ``docs/decisions.md``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final

import lxml.etree
import lxml.html
from yarl import URL

from hermes_tasks.contracts.errors import Permanent, RateLimited
from hermes_tasks.tools.searching.http import ask
from hermes_tasks.tools.searching.port import Hit, hits

_CHECK: Final = "tools.duckduckgo_url"
_HEADERS: Final = {"User-Agent": "Mozilla/5.0 (compatible; hermes-tasks)", "Accept": "text/html"}
_ALL_REGIONS: Final = "wt-wt"
_HAS_CLASS: Final = "contains(concat(' ', normalize-space(@class), ' '), ' {} ')"
_RESULT: Final = f"//div[{_HAS_CLASS.format('web-result')}]"
_TITLE: Final = f".//a[{_HAS_CLASS.format('result__a')}]"
_SNIPPET: Final = f".//*[{_HAS_CLASS.format('result__snippet')}]"
_RIDDLE: Final = "//form[@id='challenge-form'] | //*[contains(@class, 'anomaly')]"
_LIST: Final = "//*[@id='links']"


class DuckDuckGo:
    """See :class:`~hermes_tasks.tools.searching.port.SearchBackend`."""

    name = "duckduckgo"

    def __init__(self, base_url: str) -> None:
        self._url = f"{base_url.rstrip('/')}/html/"

    async def search(self, query: str, limit: int) -> Sequence[Hit]:
        """The results of its first page, without advertisements."""
        words = query.replace("!", " ")  # "!w otter" would be sent on to another site
        answer = await ask("POST", self._url, headers=_HEADERS, data={"q": words, "b": "", "kl": _ALL_REGIONS})
        if answer.status in (202, 403):
            raise _riddle()
        body = answer.content(_CHECK)
        return await asyncio.to_thread(lambda: hits(_results(body), limit))


def _results(page: bytes) -> Iterator[tuple[str, str, str]]:
    try:
        tree = lxml.html.document_fromstring(page, parser=lxml.html.HTMLParser(encoding="utf-8"))
    except lxml.etree.LxmlError:
        raise _no_results() from None
    if tree.xpath(_RIDDLE):
        raise _riddle()
    if not tree.xpath(_LIST):
        raise _no_results()
    for result in tree.xpath(_RESULT):
        for link in result.xpath(_TITLE)[:1]:
            yield link.text_content(), _target(link.get("href", "")), _text(result.xpath(_SNIPPET))


def _target(address: str) -> str:
    """Where a link of the page leads; links through DuckDuckGo carry it in ``uddg``."""
    try:
        url = URL(address)
        through = url.host is not None and url.host.endswith("duckduckgo.com") and url.path.startswith("/l/")
        return url.query.get("uddg", "") if through else address
    except ValueError:
        return ""


def _text(elements: Sequence[Any]) -> str:
    return str(elements[0].text_content()) if elements else ""


def _riddle() -> RateLimited:
    return RateLimited("takes us for a program that asks too often and wants a riddle solved")


def _no_results() -> Permanent:
    return Permanent(f"answers a page without a list of results; check {_CHECK}")
