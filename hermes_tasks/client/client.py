"""The client: one front, one key, asynchronous."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self

from hermes_tasks.client.http import ask_front, make_http, segment
from hermes_tasks.client.patience import patiently
from hermes_tasks.client.stream import follow
from hermes_tasks.client.words import Answer, Event, Sent, answer_of
from hermes_tasks.contracts.errors import InvalidRequest, NotFound
from hermes_tasks.contracts.events import EventType
from hermes_tasks.contracts.ids import new_id

_PAGE: Final = 50


class Client:
    """A user's view of one front. Use it as ``async with Client(url, key) as client``.

    Args:
        base_url: ``http://host:port``.
        key: the user's bearer key.
        timeout: of one request.
        patience: how long :meth:`events` and :meth:`ask` go on without a front before they give up.

    Every method raises errors of :mod:`hermes_tasks.contracts.errors`: ``InvalidRequest`` and its kin for what the
    caller must change, ``Retryable`` for a front or store that is away.
    """

    def __init__(
        self, base_url: str, key: str, *, timeout: timedelta = timedelta(seconds=30),
        patience: timedelta = timedelta(seconds=60),
    ) -> None:  # fmt: skip
        self._http = make_http(base_url, key, timeout)
        self._patience_s = patience.total_seconds()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. A second call does nothing."""
        await self._http.aclose()

    async def open_session(self, session: str | None = None) -> str:
        """Open a session and return its id; one that exists is continued.

        Args:
            session: the id to use; None = a new one.
        """
        body = {} if session is None else {"session": session}
        answer = await self._ask("POST", "/v1/sessions", json=body)
        return str(answer["session"])

    async def send(self, session: str, text: str, key: str | None = None) -> Sent:
        """Send a message; it is durable when this returns, and exactly one turn will answer it.

        Args:
            key: idempotency key; the same key and text again is the same message. None = a new key.
        """
        if (bad := _unencodable(text)) is not None:
            raise InvalidRequest(f"the text cannot be sent: character {bad} is half of a pair", field="text")
        answer = await self._ask(
            "POST",
            f"/v1/sessions/{segment(session)}/messages",
            json={"text": text},
            headers={"Idempotency-Key": key or new_id()},
        )
        return Sent(str(answer["message"]), bool(answer["accepted"]), session)

    async def ask(self, session: str, text: str, key: str | None = None) -> Answer:
        """Send a message and return how its turn ended.

        A front that restarts meanwhile is waited for; the message is sent once, whatever happens to the connection.

        Raises:
            Retryable: no front answered for ``patience``; the turn goes on, its answer will be in the history.
        """
        key = key or new_id()
        sent = await patiently(self._patience_s, lambda: self.send(session, text, key))
        return await self.answer_to(sent)

    async def answer_to(self, sent: Sent) -> Answer:
        """How the turn of a message ended, as soon as it has.

        Raises:
            Retryable: no front answered for ``patience``.
        """
        async with aclosing(self.watch(sent)) as events:
            ends = [event async for event in events if _is_end(event, sent)]
        return answer_of(ends[0].data)

    async def watch(self, sent: Sent) -> AsyncGenerator[Event, None]:
        """The session's events until the turn of a message has ended. The last one is always its ``turn.ended``.

        It may begin with events of the turn before. A turn that ended before or in a gap gives only its end.

        Raises:
            Retryable: no front answered for ``patience``.
            NotFound: the message is gone: the store came back without its last seconds.
        """
        async with aclosing(follow(self._http, sent.session, None, self._patience_s)) as stream:
            async for event in stream:
                if event is not None:
                    yield event
                    if _is_end(event, sent):
                        return
                if event is None:
                    # The place in the stream is fixed now: a turn that is not in the history will end in it.
                    turn = await patiently(self._patience_s, lambda: self._ended_turn(sent))
                else:
                    turn = _among(event.data.get("history") or [], sent) if event.type == EventType.RESYNC else None
                if turn is not None:
                    yield _end_of(turn)
                    return

    async def events(self, session: str, last: str | None = None) -> AsyncGenerator[Event, None]:
        """The session's events, for ever. Connects again by itself and goes on where it was.

        Args:
            last: id of the last event that was seen; None = from the open turn, or from now.

        A ``resync`` event replaces everything before it: events are missing there. ``step_restarted`` takes back the
        text of one step. :class:`~hermes_tasks.client.LiveText` follows both.

        Raises:
            Retryable: no front answered for ``patience``.
        """
        async with aclosing(follow(self._http, session, last, self._patience_s)) as stream:
            async for event in stream:
                if event is not None:
                    yield event

    async def history(self, session: str, limit: int = _PAGE, before: int | None = None) -> list[dict[str, Any]]:
        """Ended turns, oldest first: the newest ``limit``, or those before turn number ``before``."""
        answer = await self._ask("GET", f"/v1/sessions/{segment(session)}/history", params=_page(limit, before=before))
        return list(answer["turns"])

    async def sessions(self, limit: int = _PAGE) -> list[dict[str, Any]]:
        """The user's sessions, the last used first."""
        return list((await self._ask("GET", "/v1/sessions", params=_page(limit)))["sessions"])

    async def session(self, session: str) -> dict[str, Any]:
        """One session, with its open turn and the messages that wait."""
        return await self._ask("GET", f"/v1/sessions/{segment(session)}")

    async def jobs(self) -> list[dict[str, Any]]:
        """The user's jobs, the next to fire first."""
        return list((await self._ask("GET", "/v1/jobs"))["jobs"])

    async def add_job(
        self, prompt: str, *, every: str | None = None, at: str | None = None, name: str = ""
    ) -> dict[str, Any]:
        """Add a job that runs ``every`` interval (``2m``) or ``at`` one time (ISO); says how that was understood."""
        body = {"prompt": prompt, "name": name, "every": every, "at": at}
        return await self._ask("POST", "/v1/jobs", json=body)

    async def inbox(self, limit: int = _PAGE) -> list[dict[str, Any]]:
        """The newest deliveries, oldest first."""
        return list((await self._ask("GET", "/v1/inbox", params=_page(limit)))["inbox"])

    async def runs(self, limit: int = _PAGE) -> list[dict[str, Any]]:
        """The user's runs, newest first."""
        return list((await self._ask("GET", "/v1/runs", params=_page(limit)))["runs"])

    async def run(self, run: str) -> dict[str, Any]:
        """One run with its children."""
        return await self._ask("GET", f"/v1/runs/{segment(run)}")

    async def cancel(self, run: str) -> str:
        """End a run and everything below it; returns the state it is in. A second call changes nothing."""
        return str((await self._ask("POST", f"/v1/runs/{segment(run)}/cancel"))["state"])

    async def cancel_batch(self, batch: str) -> int:
        """End every open child of a delegation; returns how many. A second call changes nothing."""
        return int((await self._ask("POST", f"/v1/batches/{segment(batch)}/cancel"))["cancelled"])

    async def cancel_session(self, session: str) -> int:
        """Stop a session: its open turn, what waits, what works in the background; returns how many were ended."""
        return int((await self._ask("POST", f"/v1/sessions/{segment(session)}/cancel"))["cancelled"])

    async def explain(self, run: str) -> dict[str, Any]:
        """Why a run is where it is: ``{run, state, reasons}``, each ``{what, detail, since_ms, until_ms}``."""
        return await self._ask("GET", f"/v1/runs/{segment(run)}/explain")

    async def transcript(self, run: str, after: int = 0) -> dict[str, Any]:
        """What a run said and did from step ``after`` on: ``{run, state, next, lines}``."""
        return await self._ask("GET", f"/v1/runs/{segment(run)}/transcript", params={"after": after})

    async def memory(self) -> dict[str, Any]:
        """Both memory documents: ``{memory, user}``, each ``{entries, chars, limit_chars}``."""
        return await self._ask("GET", "/v1/memory")

    async def usage(self, day: str | None = None) -> dict[str, Any]:
        """What a day (``YYYY-MM-DD``; None = today) used: ``{day, zone, rows, total, budget}``; a cost may be None."""
        return await self._ask("GET", "/v1/usage", params={} if day is None else {"day": day})

    async def channel(self, session: str) -> dict[str, Any]:
        """``{appended, applied}``: the session's last channel entry, and the last one written to memory."""
        return await self._ask("GET", f"/v1/channel/{segment(session)}")

    async def me(self) -> dict[str, Any]:
        """Whose key this is."""
        return await self._ask("GET", "/v1/me")

    async def _ask(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        return await ask_front(self._http, method, path, **request)

    async def _ended_turn(self, sent: Sent) -> dict[str, Any] | None:
        """The turn of a message, or None while it is at work or waits."""
        if (turn := await self._in_history(sent)) is not None:
            return turn
        record = await self.session(sent.session)
        if any(waiting["message"] == sent.message for waiting in record["waiting"]):
            return None
        if (turn := await self._in_history(sent)) is not None:  # it ended between the two looks
            return turn
        raise NotFound(
            f"message {sent.message} is gone: the store lost its last seconds; send it again", field="message"
        )

    async def _in_history(self, sent: Sent) -> dict[str, Any] | None:
        """The turn if it has ended. A repeated message may be far back, a new one is in the newest page."""
        before: int | None = None
        while True:
            turns = await self.history(sent.session, before=before)
            if (turn := _among(turns, sent)) is not None:
                return turn
            if sent.accepted or not turns or int(turns[0]["turn"]) <= 1:
                return None
            before = int(turns[0]["turn"])


def _page(limit: int, before: int | None = None) -> dict[str, int]:
    return {"limit": limit} | ({} if before is None else {"before": before})


def _among(turns: list[dict[str, Any]], sent: Sent) -> dict[str, Any] | None:
    return next((turn for turn in turns if turn["run"] == sent.message), None)


def _is_end(event: Event, sent: Sent) -> bool:
    return event.type == EventType.TURN_ENDED and event.data.get("run") == sent.message


def _end_of(turn: dict[str, Any]) -> Event:
    """The ``turn.ended`` that a turn in the history once had."""
    data = {name: turn.get(name) for name in ("turn", "run", "state", "error", "usage")}
    return Event("", EventType.TURN_ENDED, data | {"exit_reason": turn.get("reason"), "text": turn["assistant"]})


def _unencodable(text: str) -> int | None:
    """Where a surrogate stands that no UTF-8 text can contain, or None."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None
