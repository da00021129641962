"""The conversation in a terminal: a prompt, and between two prompts a turn that is redrawn while it is at work."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from hermes_tasks.cli.chat_view import TurnView
from hermes_tasks.cli.chat_words import COMMANDS, conversation, unanswered
from hermes_tasks.cli.printing import clean
from hermes_tasks.client import Client, Sent, answer_of
from hermes_tasks.contracts.errors import HermesTasksError

_FRAME_S: Final = 0.1


class Screen:
    """One conversation.

    Args:
        runner: one event loop for all turns; the prompt waits outside of it, so that Ctrl-C reaches what is at work.
    """

    def __init__(self, runner: asyncio.Runner, client: Client, session: str, console: Console | None = None) -> None:
        self._runner, self._client, self._session = runner, client, session
        self._console = console or Console(highlight=False)

    def loop(self) -> None:
        """Read messages until the user leaves."""
        with suppress(ImportError):
            import readline  # noqa: F401 - gives input() its line editing, where there is one

        self._note(f"session {self._session} · {COMMANDS}")
        while True:
            try:
                text = input("you> ").strip()
                if text == "/quit":
                    return
                self._take(text)
            except EOFError:
                return
            except KeyboardInterrupt:
                self._note("\n/history shows a turn's answer when it is there; /quit or Ctrl-D leaves")
            except UnicodeDecodeError:
                self._fault("that was not UTF-8; set the terminal to UTF-8")
            except HermesTasksError as error:
                self._fault(str(error))

    def _take(self, text: str) -> None:
        match text:
            case "":
                return
            case "/new":
                self._session = self._runner.run(self._client.open_session())
                self._note(f"session {self._session}")
            case "/history":
                self._console.print(Text(conversation(self._runner.run(self._client.history(self._session)))))
            case _:
                self._runner.run(self._turn(text))

    async def _turn(self, text: str) -> None:
        sent = await self._client.send(self._session, text)
        view = TurnView(sent.message)
        await show(self._client, sent, view, self._console)
        for line in view.child_lines(time.monotonic()):
            self._console.print(line)
        if view.end is not None:
            answer = answer_of(view.end)
            self._console.print(Text(clean(answer.text)))
            if not answer.completed:
                self._fault(unanswered(answer))

    def _note(self, text: str) -> None:
        self._console.print(Text(text, style="dim"))

    def _fault(self, text: str) -> None:
        self._console.print(Text(text, style="red"))


async def show(client: Client, sent: Sent, view: TurnView, console: Console) -> None:
    """Draw a turn until it has ended; what was drawn is wiped away then.

    Raises:
        Retryable: no front answered for a minute.
    """
    with Live(
        get_renderable=lambda: view.frame(time.monotonic()), console=console, auto_refresh=False, transient=True
    ) as live:
        drawing = asyncio.create_task(_draw(live))
        try:
            async with aclosing(client.watch(sent)) as events:
                async for event in events:
                    view.feed(event, time.monotonic())
        finally:
            drawing.cancel()
            with suppress(asyncio.CancelledError):
                await drawing


async def _draw(live: Live) -> None:
    while True:
        live.refresh()
        await asyncio.sleep(_FRAME_S)
