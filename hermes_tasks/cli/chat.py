"""``hermes-tasks chat``: talk to the agent from a terminal, or from a pipe."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from hermes_tasks.cli.chat_words import conversation, unanswered
from hermes_tasks.cli.errors import ExitCode, told_in_one_line
from hermes_tasks.cli.front_client import KeyFileOption, UrlOption, open_client
from hermes_tasks.cli.options import ConfigOption, HomeOption, JsonOption
from hermes_tasks.cli.printing import clean
from hermes_tasks.contracts.errors import InvalidRequest

if TYPE_CHECKING:
    from hermes_tasks.client import Answer, Client


def chat(
    session: Annotated[str | None, typer.Option("--session", metavar="ID", help="Continue this session.")] = None,
    home: HomeOption = None,
    config: ConfigOption = None,
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Talk to the agent. Ctrl-C goes back to the prompt and leaves the turn running.

    From a pipe, or with --json, each line is a message and only answers are printed; it ends with exit code 1 at the
    first message that got none.

    Examples:
      hermes-tasks chat

      hermes-tasks chat --session groceries

      echo "What do you remember about me?" | hermes-tasks chat
    """
    code = ExitCode.OK
    with told_in_one_line():
        client = open_client(home, config, url, key_file)
        with asyncio.Runner() as runner:
            try:
                chosen = runner.run(client.open_session(session))
                if sys.stdin.isatty() and sys.stdout.isatty() and not as_json:
                    from hermes_tasks.cli.chat_screen import Screen

                    Screen(runner, client, chosen).loop()
                else:
                    code = piped(runner, client, chosen, lines_of(sys.stdin.buffer), as_json=as_json)
            finally:
                runner.run(client.aclose())
    raise SystemExit(code)


def piped(runner: asyncio.Runner, client: Client, session: str, lines: Iterable[str], *, as_json: bool) -> ExitCode:
    """One message per line, one answer after the other on standard output. Stops at a turn that has no answer.

    Raises:
        HermesTasksError: a message could not be sent.
    """
    for text in lines:
        match text.strip():
            case "":
                continue
            case "/quit":
                break
            case "/new":
                session = runner.run(client.open_session())
            case "/history":
                turns = runner.run(client.history(session))
                print(json.dumps(turns, ensure_ascii=False) if as_json else conversation(turns), flush=True)
            case _:
                answer = runner.run(client.ask(session, text))
                if as_json or answer.text:
                    print(_as_json(answer, session) if as_json else clean(answer.text), flush=True)
                if not answer.completed:
                    print(f"hermes-tasks: {unanswered(answer)}", file=sys.stderr)
                    return ExitCode.FAILED
    return ExitCode.OK


def lines_of(stream: Iterable[bytes]) -> Iterator[str]:
    """The lines of a byte stream, without their ends.

    Raises:
        InvalidRequest: one is not UTF-8.
    """
    for number, line in enumerate(stream, 1):
        try:
            yield line.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise InvalidRequest(f"line {number} of standard input is not UTF-8; convert it first") from None


def _as_json(answer: Answer, session: str) -> str:
    return json.dumps(
        {
            "session": session, "turn": answer.turn, "run": answer.run, "state": answer.state,
            "exit_reason": answer.exit_reason, "error": answer.error, "text": answer.text,
            "usage": answer.usage,
        },
        ensure_ascii=False,
    )  # fmt: skip
