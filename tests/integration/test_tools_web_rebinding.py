"""A name that is public when it is checked and private when it is connected to: how guards are passed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hermes_tasks.tools.guard import GuardedResolver, Refused
from tests.integration.name_server import name_server
from tests.integration.web_site import fetch, serving

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
OWN_NETWORK = (
    ("unshare", "--net", "--mount") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--net", "--mount")
)


async def test_a_name_is_looked_up_once_for_each_connection_and_that_answer_is_used() -> None:
    names = {"rebind.example": [["127.0.0.1"], ["169.254.169.254"]]}
    async with serving() as site, name_server(names) as server:
        site.text("/", "hello", "text/plain")
        output = await fetch(site.url("/", "rebind.example"), names=server.lookup)
        assert "hello" in output.content
        assert server.asked == ["rebind.example"]
        again = await fetch(site.url("/", "rebind.example"), names=server.lookup)
    assert again.content.startswith("not fetched: rebind.example is not on the public internet")
    assert site.asked == ["/"]


async def test_public_first_and_this_machine_next_is_refused_at_the_next_look() -> None:
    async with name_server({"rebind.example": [["93.184.216.34"], ["127.0.0.1"]]}) as server:
        resolver = GuardedResolver(allow_private=False, lookup=server.lookup)
        assert [found["host"] for found in await resolver.resolve("rebind.example", 80)] == ["93.184.216.34"]
        with pytest.raises(Refused):
            await resolver.resolve("rebind.example", 80)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What became of the fetches in a network of their own; see ``rebinding_world``."""
    tools = all(map(shutil.which, ("unshare", "ip", "mount")))
    if not tools or subprocess.run([*OWN_NETWORK, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system gives us no network of our own")
    resolv = tmp_path_factory.mktemp("world") / "resolv.conf"
    resolv.write_text("nameserver 127.0.0.1\noptions timeout:2 attempts:1\n")
    done = subprocess.run(
        [*OWN_NETWORK, sys.executable, "-P", "-m", "tests.integration.rebinding_world", str(resolv)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


async def test_a_public_page_is_read_through_the_systems_resolver(world: Mapping[str, Any]) -> None:
    assert "the public page" in world["fetched"]["steady.example/page"]["content"]


async def test_the_connection_goes_to_the_address_that_was_checked(world: Mapping[str, Any]) -> None:
    """Its second answer would be this machine; there is no second look."""
    assert "the public page" in world["fetched"]["first-look.example/page"]["content"]
    assert world["asked"].count("first-look.example") == 1


@pytest.mark.parametrize(
    ("path", "host"),
    [
        ("next-look.example/again", "next-look.example"),
        ("inside.example/page", "inside.example"),
        ("mixed.example/page", "mixed.example"),
        ("steady.example/metadata", "metadata.google.internal"),
    ],
)
async def test_no_name_leads_inside(world: Mapping[str, Any], path: str, host: str) -> None:
    answer = world["fetched"][path]
    assert answer["error"]
    assert answer["content"].startswith(f"not fetched: {host} is not on the public internet")


async def test_nothing_inside_was_ever_asked(world: Mapping[str, Any]) -> None:
    assert world["inside"] == []
