"""Addresses of the pages."""

from django.contrib.auth import views as auth
from django.urls import path
from django.views.generic import RedirectView

from webapp.pages import account, charts, compare, fleet, forks, live, preferences, router, run_list, runs

urlpatterns = [
    path("", run_list.run_list, name="runs"),
    path("runs", RedirectView.as_view(pattern_name="runs", query_string=True)),
    path("runs/act", run_list.act_on_runs, name="act-on-runs"),
    path("compare", compare.compare, name="compare"),
    path("compare/figures", compare.compare_figures, name="compare-figures"),
    path("views", run_list.keep_view, name="keep-view"),
    path("views/<int:view_id>/delete", run_list.delete_view, name="delete-view"),
    path("runs/new", runs.new_run, name="new-run"),
    path("runs/new/plan", runs.plan_run, name="plan-run"),
    path("runs/<int:run_id>", runs.run_page, name="run"),
    path("runs/<int:run_id>/parts/<slug:part>", runs.run_fragment, name="run-part"),
    path("runs/<int:run_id>/stop", runs.stop_run, name="stop-run"),
    path("runs/<int:run_id>/resume", runs.resume_run, name="resume-run"),
    path("runs/<int:run_id>/delete", runs.delete_run, name="delete-run"),
    path("runs/<int:run_id>/export/<slug:kind>", charts.export_file, name="export-run"),
    path("runs/<int:run_id>/resume/<int:step>", forks.resume_from, name="resume-from"),
    path("runs/<int:run_id>/fork/<int:step>", forks.fork_run, name="fork-run"),
    path("runs/<int:run_id>/charts", charts.chart_figures, name="run-charts"),
    path("runs/<int:run_id>/board", charts.chart_board, name="run-board"),
    path("runs/<int:run_id>/marks", charts.chart_marks, name="run-marks"),
    path("runs/<int:run_id>/pins", preferences.set_pins, name="run-pins"),
    path("runs/<int:run_id>/router", router.router_now, name="run-router"),
    path("runs/<int:run_id>/router/history", router.router_history, name="run-router-history"),
    path("runs/<int:run_id>/log", charts.log_lines, name="run-log"),
    path("runs/<int:run_id>/log.txt", charts.log_file, name="run-log-file"),
    path("nodes", fleet.node_list, name="nodes"),
    path("nodes/<str:name>/drain", fleet.set_drain, name="drain-node"),
    path("account", account.account, name="account"),
    path("account/password", account.change_password, name="change-password"),
    path("account/tokens", account.add_token, name="add-token"),
    path("account/tokens/<int:token_id>/revoke", account.revoke_token, name="revoke-token"),
    path("live", live.stream, name="live"),
    path("login", auth.LoginView.as_view(template_name="account/login.html"), name="login"),
    path("logout", auth.LogoutView.as_view(), name="logout"),
]
