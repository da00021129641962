"""Which search services are asked, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.settings import load
from hermes_tasks.settings.sections import ToolSettings
from hermes_tasks.settings.sources import sources


def tools(tmp_path: Path, **values: str) -> ToolSettings:
    return load(tmp_path, environ={f"HERMES_TASKS_TOOLS__{name.upper()}": text for name, text in values.items()}).tools


@pytest.mark.parametrize(
    ("values", "asked"),
    [
        ({}, ("duckduckgo",)),
        ({"search": "none", "search_url": "http://s"}, ()),
        ({"search": " none "}, ()),
        ({"search_url": "http://s"}, ("searxng",)),
        ({"brave_key": "b", "tavily_key_file": "/t", "search_url": "http://s"}, ("searxng", "tavily", "brave")),
        ({"search": "duckduckgo, brave", "brave_key": "b", "search_url": "http://s"}, ("duckduckgo", "brave")),
    ],
)
def test_who_is_asked_and_in_which_order(tmp_path: Path, values: dict[str, str], asked: tuple[str, ...]) -> None:
    assert tools(tmp_path, **values).search_services == asked


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"search": "google"}, "auto, none, or some of searxng, tavily, brave, duckduckgo, separated by commas"),
        ({"search": "auto, brave"}, "separated by commas"),
        ({"search": ","}, "separated by commas"),
        ({"search": "duckduckgo,duckduckgo"}, "separated by commas"),
        ({"search": "searxng"}, "tools has searxng in search, but no search_url; add it"),
        ({"search": "brave"}, "tools has brave in search, but no brave_key or brave_key_file; add it"),
        ({"tavily_key": "k", "tavily_key_file": "/k"}, "tools has both tavily_key and tavily_key_file; keep one"),
        ({"tavily_key": "two words"}, "tools.tavily_key = (text, hidden)"),
        ({"brave_url": "ftp://b"}, "http://host or https://host"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, values: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        tools(tmp_path, **values)
    assert said in str(refused.value)
    assert "two words" not in str(refused.value)


def test_a_key_is_taken_from_where_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("from-file\n")
    chosen = tools(tmp_path, tavily_key="plain", brave_key_file=str(file))
    assert (chosen.search_key("tavily"), chosen.search_key("brave")) == ("plain", "from-file")
    file.write_text("two\nlines\n")
    with pytest.raises(InvalidRequest, match="holds no key"):
        chosen.search_key("brave")
    file.unlink()
    with pytest.raises(InvalidRequest, match=r"cannot read the key file .*; check tools\.brave_key_file"):
        chosen.search_key("brave")
    with pytest.raises(InvalidRequest, match=r"tools\.tavily_key is not set"):
        ToolSettings().search_key("tavily")


def test_keys_are_never_shown(tmp_path: Path) -> None:
    settings = load(tmp_path, environ={"HERMES_TASKS_TOOLS__TAVILY_KEY": "hidden-key"})
    assert "hidden-key" not in repr(settings) + str(sources(settings))
