"""Points packed by the hundred instead of a row each; those that are there are converted, none is lost."""

from itertools import groupby, islice
from operator import itemgetter

from django.db import migrations, models

from webapp.metrics import chunks
from webapp.metrics.buckets import Points

_PARTITIONS = 16
_BATCH = 8192

_CREATE = f"""
    CREATE SEQUENCE metrics_chunk_id;
    CREATE TABLE metrics_chunk (
        id bigint NOT NULL DEFAULT nextval('metrics_chunk_id'),
        run_id bigint NOT NULL,
        series_id bigint NOT NULL,
        first_step bigint NOT NULL,
        last_step bigint NOT NULL,
        attempt integer NOT NULL,
        count integer NOT NULL,
        level smallint NOT NULL,
        bits smallint NOT NULL,
        cover smallint NOT NULL DEFAULT {chunks.UNCOVERED},
        -- Deflated already: to be moved out of the row when long, not to be compressed again.
        data bytea STORAGE EXTERNAL NOT NULL
    ) PARTITION BY HASH (run_id);
    ALTER SEQUENCE metrics_chunk_id OWNED BY metrics_chunk.id;
    CREATE INDEX metrics_chunk_series ON metrics_chunk (series_id, cover, last_step);
    -- Few columns of a series change, and often: room on the page keeps its indexes out of it.
    ALTER TABLE metrics_series SET (fillfactor = 70);
""" + "".join(
    # Rows of single points live for sixteen batches: what they leave behind is to be used again soon.
    f"""
    CREATE TABLE metrics_chunk_{number} PARTITION OF metrics_chunk
        FOR VALUES WITH (MODULUS {_PARTITIONS}, REMAINDER {number})
        WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
              toast.autovacuum_vacuum_scale_factor = 0.05);
    """
    for number in range(_PARTITIONS)
)


def convert(apps, schema_editor):
    with schema_editor.connection.cursor() as sql:
        sql.execute("SELECT id, run_id FROM metrics_series ORDER BY id")
        series = sql.fetchall()
    for series_id, run_id in series:
        with schema_editor.connection.chunked_cursor() as rows:
            rows.execute(
                "SELECT attempt, step, (extract(epoch FROM time) * 1000000)::int8, value FROM metrics_point "
                "WHERE series_id = %s ORDER BY attempt, step, time",
                [series_id],
            )
            for attempt, group in groupby(rows, itemgetter(0)):
                while part := list(islice(group, _BATCH)):
                    _, *columns = zip(*part, strict=True)
                    chunks.add(run_id, [(series_id, attempt, Points.sorted(*columns))])
        chunks.merge(run_id, [series_id])


class Migration(migrations.Migration):

    dependencies = [("metrics", "0001_initial")]

    operations = [
        migrations.AddField(
            "series",
            "batches",
            models.BigIntegerField(default=0, help_text="How often points came; each sixteenth time they merge."),
        ),
        migrations.RunSQL(_CREATE, "DROP TABLE metrics_chunk"),
        migrations.RunPython(convert),
        migrations.RunSQL("DROP TABLE metrics_point"),
    ]
