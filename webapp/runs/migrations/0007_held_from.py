from django.db import migrations, models


def hold_from_the_start(apps, schema_editor):
    apps.get_model("runs", "Attempt").objects.update(held_from=models.F("created_at"))


class Migration(migrations.Migration):
    dependencies = [("runs", "0006_slots")]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="held_from",
            field=models.DateTimeField(
                blank=True,
                help_text="When it was given its nodes; empty while it waits for them in a batch system.",
                null=True,
            ),
        ),
        migrations.RunPython(hold_from_the_start, migrations.RunPython.noop),
    ]
