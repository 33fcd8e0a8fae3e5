"""GET /healthz: whether each part works; 200 while the database answers and the broker does, else 503."""

import redis
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse

from webapp.fleet.models import Service
from webapp.fleet.selectors import usable_nodes


@login_not_required
def healthz(request: HttpRequest) -> JsonResponse:
    """Needs no login and says nothing but states."""
    parts = {"database": _database(), "broker": _broker()}
    is_ready = parts["database"] == "ok" and parts["broker"] == "ok"
    if parts["database"] == "ok":
        workers = Service.objects.all()
        parts["workers"] = {worker.name: "ok" if worker.is_alive else "lost" for worker in workers}
        parts["nodes"] = {node.name: "ok" for node in usable_nodes()}
    return JsonResponse({"status": "ok" if is_ready else "down", **parts}, status=200 if is_ready else 503)


def _database() -> str:
    try:
        with connection.cursor() as sql:
            sql.execute("SELECT 1")
    except DatabaseError:
        return "down"
    return "ok"


def _broker() -> str:
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=0.5, socket_timeout=0.5) as client:
            client.ping()
    except redis.RedisError:
        return "down"
    return "ok"
