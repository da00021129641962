"""Run by path in a network of its own, where a public address is this machine and nothing else can be reached.

There the whole of ``web_fetch`` is met by a rebinding name server, the system's own resolver included. Prints what
became of each fetch as JSON. Arguments: a file to put in the place of ``/etc/resolv.conf``.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

from tests.integration.name_server import name_server
from tests.integration.web_site import fetch, serving

PUBLIC = "93.184.216.34"
PORT = 8080


async def main() -> None:
    run("mount", "--bind", sys.argv[1], "/etc/resolv.conf")
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{PUBLIC}/32", "dev", "lo")
    names = {
        "steady.example": [[PUBLIC]],
        "first-look.example": [[PUBLIC], ["127.0.0.1"]],
        "next-look.example": [[PUBLIC], ["127.0.0.1"]],
        "inside.example": [["127.0.0.1"]],
        "mixed.example": [[PUBLIC, "127.0.0.1"]],
        "metadata.google.internal": [["169.254.169.254"]],
    }
    async with serving(PUBLIC, PORT) as outside, serving("127.0.0.1", PORT) as inside, name_server(names, 53) as server:
        outside.text("/page", "the public page", "text/plain")
        inside.text("/page", "SECRET", "text/plain")
        outside.redirect("/again", f"http://next-look.example:{PORT}/page")
        outside.redirect("/metadata", "http://metadata.google.internal/")
        fetched = {}
        for path in (
            "steady.example/page",
            "first-look.example/page",
            "next-look.example/again",
            "inside.example/page",
            "mixed.example/page",
            "steady.example/metadata",
        ):
            host, _, rest = path.partition("/")
            output = await fetch(f"http://{host}:{PORT}/{rest}", allow_private=False)
            fetched[path] = {"content": output.content, "error": output.error}
        print(json.dumps({"fetched": fetched, "asked": server.asked, "inside": inside.asked}))


def run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    asyncio.run(main())
