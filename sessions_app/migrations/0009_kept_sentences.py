"""Rows keep sentences with their arguments, so that each reader has them in their own language. What was written before stays
as it is."""

from django.db import migrations

import common.db.fields

AS_SENTENCE = """
ALTER TABLE {table} ALTER COLUMN {column} TYPE jsonb
USING CASE {column} WHEN '' THEN '{{}}'::jsonb ELSE jsonb_build_object('text', {column}) END
"""
AS_TEXT = """
ALTER TABLE {table} ALTER COLUMN {column} TYPE varchar(500) USING left(coalesce({column} ->> 'text', ''), 500)
"""


def kept(model: str, table: str, column: str, field: common.db.fields.SentenceField) -> migrations.RunSQL:
    return migrations.RunSQL(
        AS_SENTENCE.format(table=table, column=column),
        AS_TEXT.format(table=table, column=column),
        state_operations=[migrations.AlterField(model, column, field)],
    )


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0008_newest_sessions")]

    operations = [
        kept(
            "computesession",
            "sessions_app_computesession",
            "status_message",
            common.db.fields.SentenceField(editable=False),
        ),
        kept(
            "sessiontransition",
            "sessions_app_sessiontransition",
            "message",
            common.db.fields.SentenceField(),
        ),
    ]
