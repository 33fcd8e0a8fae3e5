"""The API itself: its routes, and every error in one shape: {"detail": sentence, "problems": [{path, message}]}."""

import logging

from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError
from ninja.errors import ValidationError as BodyError

from webapp.api import fleet, measurements, presets, runs
from webapp.api.auth import AUTH
from webapp.api.json import StrictJson
from webapp.runs.states import NotAllowed
from zaya_model import __version__
from zaya_model.errors import ConfigError

log = logging.getLogger(__name__)

api = NinjaAPI(
    title="Zayaboard",
    version=__version__,
    description="Define, watch and steer training runs. Every route needs a bearer token or a login.",
    auth=AUTH,
    renderer=StrictJson(),
    urls_namespace="api",
)
api.add_router("", presets.router, tags=["schema"])
api.add_router("", fleet.router, tags=["nodes"])
api.add_router("/runs", runs.router, tags=["runs"])
api.add_router("/runs", measurements.router, tags=["measurements"])


def _answer(
    request: HttpRequest, status: int, detail: str, problems: list[dict[str, str]] | None = None
) -> HttpResponse:
    return api.create_response(request, {"detail": detail, "problems": problems or []}, status=status)


@api.exception_handler(ConfigError)
def _config(request: HttpRequest, error: ConfigError) -> HttpResponse:
    problems = [{"path": problem.path, "message": problem.message} for problem in error.problems]
    return _answer(request, 422, f"The config cannot be used. {error.problems[0]}", problems)


@api.exception_handler(ValidationError)
def _rule(request: HttpRequest, error: ValidationError) -> HttpResponse:
    problems = [
        {"path": field, "message": " ".join(messages)} for field, messages in sorted(error.message_dict.items())
    ]
    return _answer(request, 422, f"{problems[0]['path']}: {problems[0]['message']}", problems)


@api.exception_handler(BodyError)
def _body(request: HttpRequest, error: BodyError) -> HttpResponse:
    problems = []
    for item in error.errors:
        # The first words say where it was given: body or query, and the name of the argument.
        path = ".".join(str(part) for part in item["loc"][1:] if part != "body")
        problems.append({"path": path, "message": item["msg"]})
    return _answer(request, 422, f"{problems[0]['path']}: {problems[0]['message']}", problems)


@api.exception_handler(NotAllowed)
def _state(request: HttpRequest, error: NotAllowed) -> HttpResponse:
    return _answer(request, 409, str(error))


@api.exception_handler(Http404)
def _missing(request: HttpRequest, error: Http404) -> HttpResponse:
    return _answer(request, 404, str(error) or "There is no such thing.")


@api.exception_handler(AuthenticationError)
def _stranger(request: HttpRequest, _: AuthenticationError) -> HttpResponse:
    return _answer(request, 401, "Give a token: `Authorization: Bearer TOKEN`; `manage.py token NAME` makes one.")


@api.exception_handler(HttpError)
def _http(request: HttpRequest, error: HttpError) -> HttpResponse:
    return _answer(request, error.status_code, str(error))


@api.exception_handler(Exception)
def _fault(request: HttpRequest, error: Exception) -> HttpResponse:
    log.exception("%s %s failed", request.method, request.path, exc_info=error)
    return _answer(request, 500, "Something went wrong here; the web process's log says what.")
