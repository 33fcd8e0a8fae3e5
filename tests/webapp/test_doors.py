"""Every address there is: who may open it, and that nobody without a login may."""

import json

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

PUBLIC = {"healthz", "login", "logout"}
NUMBERS = {"run_id": 1, "step": 1, "token_id": 1, "view_id": 1, "layer": 0, "name": "test-node", "part": "head",
           "kind": "csv"}  # fmt: skip


def pages() -> list[str]:
    """Paths of all pages, with something put into their places."""
    found = []
    for entry in get_resolver().url_patterns:
        if isinstance(entry, URLResolver) and entry.pattern.regex.pattern in ("^", "\\A"):
            found += [p for p in entry.url_patterns if isinstance(p, URLPattern) and p.name not in PUBLIC]
    paths = []
    for pattern in found:
        route = str(pattern.pattern)
        for name, value in NUMBERS.items():
            for kind in ("int:", "str:", "slug:"):
                route = route.replace(f"<{kind}{name}>", str(value))
        paths.append(f"/{route}")
    return paths


def api_routes() -> list[tuple[str, str]]:
    from webapp.api.router import api

    found = []
    for path, methods in api.get_openapi_schema()["paths"].items():
        for name, value in NUMBERS.items():
            path = path.replace(f"{{{name}}}", str(value))
        found += [(method, path) for method in methods]
    return found


def test_there_are_pages_and_routes_to_test():
    assert len(pages()) >= 15
    assert len(api_routes()) >= 15


@pytest.mark.parametrize("path", pages())
def test_page_asks_a_stranger_to_log_in(db, path):
    answer = Client().get(path)
    assert answer.status_code in (302, 401)
    if answer.status_code == 302:
        assert answer["Location"].startswith("/login")


@pytest.mark.parametrize(("method", "path"), api_routes())
def test_route_refuses_a_stranger_with_one_sentence(db, method, path):
    answer = Client().generic(method.upper(), path, "{}", content_type="application/json")
    assert answer.status_code == 401
    assert "token" in answer.json()["detail"]


@pytest.mark.parametrize(("method", "path"), [route for route in api_routes() if route[0] != "get"])
def test_viewer_may_change_nothing(viewer, run, node, method, path):
    from webapp.accounts.services import create_token

    _, token = create_token(user=viewer, name="t")
    path = path.replace("/runs/1/", f"/runs/{run.pk}/")
    body = json.dumps({"name": "x", **({"step": 1} if path.endswith("/fork") else {"preset": "tiny-cpu"})})
    answer = Client().generic(
        method.upper(), path, body, content_type="application/json", headers={"Authorization": f"Bearer {token}"}
    )
    assert answer.status_code == 403
    assert "operator" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/", "/nodes", "/account", "/runs/{run}", "/runs/{run}/charts?ids=loss",
                                  "/compare?runs={run}", "/compare/figures?runs={run}&keys=loss", "/compare",
                                  "/runs/{run}/router", "/runs/{run}/log", "/runs/{run}/parts/head"])  # fmt: skip
def test_viewer_may_see_everything(viewer, run, node, browser_of, path):
    assert browser_of(viewer).get(path.format(run=run.pk)).status_code == 200


@pytest.mark.parametrize(
    "path", ["/runs/new", "/runs/{run}/stop", "/runs/{run}/resume", "/runs/act", "/nodes/test-node/drain"]
)
def test_viewer_is_refused_where_things_change(viewer, run, node, browser_of, path):
    client = browser_of(viewer)
    ask = client.get if path == "/runs/new" else client.post
    answer = ask(path.format(run=run.pk))
    assert answer.status_code == 403
    assert b"operator" in answer.content


def test_sign_of_life_needs_no_login(db, embedded_servers):
    answer = Client().get("/healthz")
    assert answer.status_code == 200
    assert answer.json()["database"] == "ok"


def test_sign_of_life_says_what_is_down(db, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    answer = Client().get("/healthz")
    assert (answer.status_code, answer.json()["broker"]) == (503, "down")


@pytest.mark.parametrize("path", ["/admin/", "/admin/accounts/user/", "/admin/accounts/apitoken/",
                                  "/admin/fleet/node/", "/admin/runs/run/", "/admin/accounts/user/add/"])  # fmt: skip
def test_console_opens_for_administrators_only(superuser, operator, run, node, browser_of, path):
    assert browser_of(superuser).get(path).status_code == 200
    assert browser_of(operator).get(path).status_code == 302


def test_console_shows_a_new_token_once(superuser, operator, browser_of):
    client = browser_of(superuser)
    answer = client.post("/admin/accounts/apitoken/add/", {"user": operator.pk, "name": "ci"}, follow=True)
    text = answer.content.decode().split("not shown again: ")[1].split("<")[0].strip()
    from webapp.accounts.services import user_of_token

    assert user_of_token(text) == operator
    assert text not in client.get("/admin/accounts/apitoken/").content.decode()


def test_console_stops_runs_by_the_service(superuser, run, browser_of):
    browser_of(superuser).post("/admin/runs/run/", {"action": "stop", "_selected_action": [run.pk]})
    run.refresh_from_db()
    assert run.state == "stopped"
