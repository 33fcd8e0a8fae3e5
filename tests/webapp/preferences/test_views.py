"""Saved views: named, one's own, and not without end."""

import pytest
from django.core.exceptions import ValidationError

from webapp.preferences.selectors import saved_views
from webapp.preferences.services import MOST_VIEWS, forget_view, save_view

pytestmark = pytest.mark.django_db


def test_view_is_kept_for_its_user_by_name(operator, viewer):
    for name in ("zebra", "ant"):
        save_view(operator, name, f"query={name}")
    assert [view.name for view in saved_views(operator)] == ["ant", "zebra"]
    assert saved_views(viewer) == []


def test_name_used_again_is_given_to_the_newer_view(operator):
    save_view(operator, "mine", "query=old")
    save_view(operator, "  mine ", "query=new")
    assert [view.address for view in saved_views(operator)] == ["query=new"]


@pytest.mark.parametrize(("name", "address"), [("", "x"), (" \n", "x"), ("n" * 61, "x"), ("n", "x" * 4001)])
def test_what_cannot_be_kept_is_refused(operator, name, address):
    with pytest.raises(ValidationError):
        save_view(operator, name, address)


def test_there_is_an_end_to_views(operator):
    for number in range(MOST_VIEWS):
        save_view(operator, str(number), "")
    save_view(operator, "0", "query=changed")
    with pytest.raises(ValidationError, match="delete one first"):
        save_view(operator, "one more", "")


def test_nobody_deletes_what_is_of_somebody_else(operator, viewer):
    view = save_view(operator, "mine", "")
    forget_view(viewer, view.pk)
    assert saved_views(operator) == [view]
