"""Series, log lines and cursors; points and router loads are plain tables, written by COPY and read by SQL.

    metrics_chunk   (run_id, series_id, attempt, …, data)   hundreds of packed points or buckets: see chunks.py
    metrics_router  (run_id, attempt, step, layer, time, load[], skipped, bias[])   one row a layer, tokens per expert

Both are made in the migrations. They have no keys of their own: a row exists because a cursor moved over its line in
the same transaction, so it is there exactly once.
"""

from django.db import models

from webapp.runs.models import Run


class Series(models.Model):
    """One named scalar of a run, with its newest point for the lists."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="series")
    key = models.CharField(max_length=250)
    last_step = models.BigIntegerField(default=0)
    last_value = models.FloatField(default=0.0)
    batches = models.BigIntegerField(default=0, help_text="How often points came; each sixteenth time they merge.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "key"], name="series_key_once")]

    def __str__(self) -> str:
        return f"{self.run_id}:{self.key}"


class LogLine(models.Model):
    """One line a run printed or its trainer logged."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="log_lines")
    attempt = models.PositiveIntegerField()
    source = models.CharField(max_length=60, help_text="node and rank, or `output` for what was printed.")
    time = models.DateTimeField()
    level = models.CharField(max_length=10)
    text = models.TextField()

    class Meta:
        indexes = [models.Index(fields=["run", "id"])]

    def __str__(self) -> str:
        return self.text


class IngestCursor(models.Model):
    """How far one file of a run was read into Postgres."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="cursors")
    path = models.CharField(max_length=250, help_text="Below the run's folder.")
    offset = models.BigIntegerField(default=0)
    lines = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "path"], name="cursor_file_once")]

    def __str__(self) -> str:
        return f"{self.run_id}:{self.path}@{self.offset}"
