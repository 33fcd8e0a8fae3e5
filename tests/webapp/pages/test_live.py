"""The live stream: notices reach open pages, nobody without a login listens, no connection is held."""

import asyncio
import json

import pytest
import redis
from django.test import AsyncClient

from webapp.messages import LIVE_CHANNEL
from webapp.pages.live import Listener

pytestmark = pytest.mark.django_db(transaction=True)


async def read_notice(stream) -> dict:
    """The next notice, heartbeats left out."""
    while True:
        chunk = (await asyncio.wait_for(anext(stream), 10)).decode()
        for line in chunk.splitlines():
            if line.startswith("data: "):
                return json.loads(line.removeprefix("data: "))


def publish(settings, run: int) -> None:
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.publish(LIVE_CHANNEL, json.dumps({"run": run, "topics": ["metrics"]}))


def test_stranger_may_not_listen(client):
    assert client.get("/live").status_code == 401


def test_page_hears_of_its_run_and_of_no_other(operator, settings):
    async def listen() -> dict:
        client = AsyncClient()
        await client.aforce_login(operator)
        answer = await client.get("/live?run=7")
        stream = aiter(answer.streaming_content)
        assert await read_notice(stream) == {}
        first = await read_notice(stream)
        assert first["topics"] == ["all"]
        publish(settings, 8)
        publish(settings, 7)
        return await read_notice(stream)

    assert asyncio.run(listen()) == {"run": 7, "topics": ["metrics"]}


def test_slow_page_gets_the_union_of_what_it_missed():
    listener = Listener(None)
    listener.tell(1, {"metrics"})
    listener.tell(1, {"logs"})
    listener.tell(2, {"state"})
    assert listener.take() == {1: {"metrics", "logs"}, 2: {"state"}}
    assert listener.take() == {}
