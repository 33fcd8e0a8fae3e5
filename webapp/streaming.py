"""Answers that are sent while they are made, so that their length does not matter."""

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse


def stream(request: HttpRequest, pieces: Iterator[bytes], *, content_type: str, filename: str) -> StreamingHttpResponse:
    """A download of pieces, each made when the one before it was sent."""
    body = _in_turn(pieces) if isinstance(request, ASGIRequest) else pieces
    answer = StreamingHttpResponse(body, content_type=content_type)
    answer["Content-Disposition"] = f'attachment; filename="{filename}"'
    return answer


async def _in_turn(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Make pieces off the event loop; Django would otherwise make all of them before it sent one."""
    make = sync_to_async(next)
    while (piece := await make(pieces, None)) is not None:
        yield piece
