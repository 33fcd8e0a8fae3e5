"""The live stream: notices reach open pages, nobody without a login listens, no connection is held."""

import asyncio
import json

import pytest
import redis
from django.test import AsyncClient

from webapp.messages import LIVE_CHANNEL
from webapp.pages.live import Hub, Listener

pytestmark = pytest.mark.django_db(transaction=True)


async def read_notice(stream) -> dict:
    """The next notice, heartbeats left out."""
    while True:
        chunk = (await asyncio.wait_for(anext(stream), 10)).decode()
        for line in chunk.splitlines():
            if line.startswith("data: "):
                return json.loads(line.removeprefix("data: "))


async def place_of_next(stream) -> str:
    """The id of the next event."""
    return (await asyncio.wait_for(anext(stream), 10)).decode().split("id: ")[1].split("\n")[0]


def publish(settings, run: int, topic: str = "metrics") -> None:
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.publish(LIVE_CHANNEL, json.dumps({"run": run, "topics": [topic]}))


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


def test_page_that_comes_back_is_told_what_it_missed_and_no_more(operator, settings):
    async def listen() -> tuple[dict, dict]:
        client = AsyncClient()
        await client.aforce_login(operator)
        stream = aiter((await client.get("/live?run=7")).streaming_content)
        while (await read_notice(stream)).get("topics") != ["all"]:
            pass
        publish(settings, 7)
        place = await place_of_next(stream)
        await stream.aclose()
        other = aiter((await client.get("/live")).streaming_content)
        publish(settings, 7, "logs")
        publish(settings, 8, "router")
        while (await read_notice(other)).get("run") != 8:
            pass
        back = await client.get("/live?run=7", headers={"Last-Event-ID": place})
        again = aiter(back.streaming_content)
        return json.loads((await anext(again)).decode().split("data: ")[1]), await read_notice(again)

    assert asyncio.run(listen()) == (1, {"run": 7, "topics": ["logs"]})


def test_new_page_is_told_only_what_came_after_it_was_made(operator, settings):
    async def listen() -> tuple[str, dict]:
        client = AsyncClient()
        await client.aforce_login(operator)
        other = aiter((await client.get("/live")).streaming_content)
        while (await read_notice(other)).get("topics") != ["all"]:
            pass
        publish(settings, 7, "logs")
        place = await place_of_next(other)
        fresh = aiter((await client.get(f"/live?run=7&since={place}")).streaming_content)
        first = (await anext(fresh)).decode()
        publish(settings, 7, "metrics")
        return first, await read_notice(fresh)

    first, second = asyncio.run(listen())
    assert "event: beat" in first
    assert second == {"run": 7, "topics": ["metrics"]}


@pytest.mark.parametrize("place", ["", "x", "0-0", "another-5", "-", "--1"])
def test_page_that_heard_another_server_reads_everything(place):
    assert not Hub().tell_missed(Listener(None), place)
