"""Server-sent events: one subscription to Redis in each web process, fanned out to every open page.

A page gets notices ("run 42: metrics, logs"), never data: it reads what it shows again, so nothing can be missed.
Notices are numbered; a page that comes back says the last number it heard and is told what it missed, or to read all.
"""

import asyncio
import contextlib
import json
import logging
import secrets
from collections.abc import AsyncIterator, Iterator

import redis.asyncio
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from redis.exceptions import RedisError

from webapp.messages import LIVE_CHANNEL

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 15.0
_LONGEST_PAUSE = 5.0


class Listener:
    """One open page: which run it watches (None for all), and the topics it has not been told yet."""

    def __init__(self, run_id: int | None) -> None:
        self.run_id = run_id
        self.news: dict[int, set[str]] = {}
        self.woken = asyncio.Event()

    def tell(self, run_id: int, topics: set[str]) -> None:
        """Remember and wake; a slow page gets the union, so this never grows beyond the runs there are."""
        if self.run_id in (None, run_id):
            self.news.setdefault(run_id, set()).update(topics)
            self.woken.set()

    def take(self) -> dict[int, set[str]]:
        """What is new since the last time."""
        news, self.news = self.news, {}
        self.woken.clear()
        return news


class Hub:
    """The subscription, and everybody who listens."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        # The number of the newest notice on each topic of a run; numbers count within one subscription, which is named.
        self._subscription = secrets.token_hex(4)
        self._number = 0
        self._newest: dict[int, dict[str, int]] = {}
        # The loop keeps only a weak reference to its tasks; without this one the stream would go silent.
        self._task: asyncio.Task | None = None

    @contextlib.contextmanager
    def listening(self, run_id: int | None) -> Iterator[Listener]:
        """Listen until the page is gone."""
        listener = Listener(run_id)
        self._listeners.add(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._follow())
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    @property
    def place(self) -> str:
        """The id of an event that tells everything up to now."""
        return f"{self._subscription}-{self._number}"

    def tell_missed(self, listener: Listener, place: str) -> bool:
        """Tell a page that comes back what was new since `place`; False if that is not known any more."""
        subscription, _, number = place.partition("-")
        if subscription != self._subscription or not number.isdecimal():
            return False
        for run_id, topics in self._newest.items():
            if missed := {topic for topic, newest in topics.items() if newest > int(number)}:
                listener.tell(run_id, missed)
        return True

    async def _follow(self) -> None:
        """Read the channel for ever; after a break every page is told to read all again."""
        pause = 0.2
        while True:
            try:
                client = redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_timeout=None)
                async with client, client.pubsub() as channel:
                    await channel.subscribe(LIVE_CHANNEL)
                    self._tell_all_again()
                    pause = 0.2
                    async for message in channel.listen():
                        if message["type"] == "message":
                            self._tell(message["data"])
            except (RedisError, OSError) as error:
                log.warning("live notices wait for the broker: %s", error)
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)

    def _tell(self, data: bytes) -> None:
        notice = json.loads(data)
        self._number += 1
        self._newest.setdefault(notice["run"], {}).update(dict.fromkeys(notice["topics"], self._number))
        for listener in self._listeners:
            listener.tell(notice["run"], set(notice["topics"]))

    def _tell_all_again(self) -> None:
        self._subscription, self._number, self._newest = secrets.token_hex(4), 0, {}
        for listener in self._listeners:
            listener.tell(listener.run_id or 0, {"all"})


hub = Hub()


@login_not_required
async def stream(request: HttpRequest) -> HttpResponse:
    """GET /live, or /live?run=42 for one run; needs a login, holds no database connection.

    `since` is the place a page was made at; the last event it heard, which the browser names by itself, counts more.
    """
    if not await _is_known(request):
        return HttpResponse("Log in to watch.", status=401)
    text = request.GET.get("run", "")
    place = request.headers.get("Last-Event-ID") or request.GET.get("since", "")
    events = _events(int(text) if text.isdecimal() else None, place)
    answer = StreamingHttpResponse(events, content_type="text/event-stream")
    answer["Cache-Control"] = "no-store"
    answer["X-Accel-Buffering"] = "no"
    return answer


async def _events(run_id: int | None, place: str) -> AsyncIterator[str]:
    with hub.listening(run_id) as listener:
        if hub.tell_missed(listener, place):
            yield f"retry: 1000\nid: {hub.place}\nevent: beat\ndata: 1\n\n"
        else:
            # The first thing a page hears is to read everything: whatever it missed, it has now.
            yield f"retry: 1000\nid: {hub.place}\nevent: notice\ndata: {{}}\n\n"
        while True:
            try:
                await asyncio.wait_for(listener.woken.wait(), HEARTBEAT_SECONDS)
            except TimeoutError:
                yield "event: beat\ndata: 1\n\n"
                continue
            for run, topics in listener.take().items():
                notice = json.dumps({"run": run, "topics": sorted(topics)})
                yield f"id: {hub.place}\nevent: notice\ndata: {notice}\n\n"


@sync_to_async
def _is_known(request: HttpRequest) -> bool:
    """Whether the session belongs to someone; gives the connection back, which an open stream would keep."""
    is_known = request.user.is_authenticated
    connections.close_all()
    return is_known
