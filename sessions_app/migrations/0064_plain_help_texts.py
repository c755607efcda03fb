from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0001_squashed_0063_drop_input_changes"),
    ]

    operations = [
        migrations.AlterField(
            model_name="computesession",
            name="device_model",
            field=models.CharField(
                db_default="", default="", help_text="Model of the accelerators; empty: any.", max_length=120
            ),
        ),
        migrations.AlterField(
            model_name="computesession",
            name="may_run_elsewhere",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="true if other agents may run the session when the designated agent has no capacity.",
            ),
        ),
        migrations.AlterField(
            model_name="computesession",
            name="pending_timeout_s",
            field=models.PositiveIntegerField(
                help_text="Seconds that it waits for an agent before it is cancelled.", null=True
            ),
        ),
        migrations.AlterField(
            model_name="computesession",
            name="personal_files",
            field=models.BooleanField(
                default=True, help_text="true if the session gets the owner's dotfiles and start-up script."
            ),
        ),
        migrations.AlterField(
            model_name="computesession",
            name="placement_group",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Placement group, among the owner's sessions in the project; empty: the elements of the array.",
                max_length=64,
            ),
        ),
        migrations.AlterField(
            model_name="computesession",
            name="placement_rule",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Rule by which the session is placed relative to its placement group.",
                max_length=16,
            ),
        ),
        migrations.AlterField(
            model_name="computesession",
            name="priority",
            field=models.SmallIntegerField(
                default=0, help_text="Sessions with a higher priority are placed first."
            ),
        ),
        migrations.AlterField(
            model_name="computesession",
            name="requeues",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="true if the session is queued again when its agent is lost.",
            ),
        ),
        migrations.AlterField(
            model_name="computesession",
            name="start_at",
            field=models.DateTimeField(help_text="Earliest start; null: at once.", null=True),
        ),
        migrations.AlterField(
            model_name="computesession",
            name="stops_at",
            field=models.DateTimeField(
                editable=False, help_text="Time of the scheduled stop; null: none.", null=True
            ),
        ),
        migrations.AlterField(
            model_name="sessionarray",
            name="count",
            field=models.PositiveSmallIntegerField(help_text="Number of elements."),
        ),
        migrations.AlterField(
            model_name="sessionarray",
            name="most_at_once",
            field=models.PositiveSmallIntegerField(
                help_text="Maximum number of elements that wait for an agent or run at a time; null: unlimited.",
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="sessionarray",
            name="spec",
            field=models.CharField(help_text="Indices as requested, e.g. 1-100%10.", max_length=1000),
        ),
    ]
