"""What a user keeps of how pages look, as the pages send it."""

import json

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from webapp.pages.runs import get_run
from webapp.preferences.services import forget_pins, pin_charts


@require_http_methods(["POST", "DELETE"])
def set_pins(request: HttpRequest, run_id: int) -> HttpResponse:
    """Keep {"charts": [id, …]} for this run, or with ?default for every run without a choice; DELETE forgets both."""
    run = get_run(run_id)
    if request.method == "DELETE":
        forget_pins(request.user, run)
        forget_pins(request.user, None)
        return HttpResponse(status=204)
    try:
        charts = json.loads(request.body)["charts"]
        pin_charts(request.user, None if "default" in request.GET else run, [*charts])
    except (ValueError, KeyError, TypeError):
        return HttpResponse('Send {"charts": [id, …]}.', status=422, content_type="text/plain")
    except ValidationError as error:
        return HttpResponse(error.messages[0], status=422, content_type="text/plain")
    return HttpResponse(status=204)
