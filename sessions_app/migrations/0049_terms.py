"""Whoever changes a row by which requests are judged leaves the number of the transaction. Statements that write other columns of these
tables (a sign-in, the last use of a token, a tick) leave nothing."""

from django.db import migrations, models

WHOLE = (
    "accounts_domain", "accounts_project", "accounts_membership", "accounts_resourcepolicy", "agents_groupgrant",
    "images_containerimage", "images_registry",
)  # fmt: skip
COLUMNS = {
    "accounts_user": ("email", "policy_id"),
    "accounts_keypair": ("name", "policy_id"),
    # All but where the last tick left it.
    "agents_resourcegroup": (
        "name", "description", "is_default", "is_active", "is_public", "deleted_at", "created_at", "strategy", "scheduler",
        "session_types", "max_session_slots", "cpu_overcommit", "mem_overcommit", "ageing_s", "patience_s",
        "usage_half_life_s", "preemptible_priority", "preemption_after_s", "preemption_grace_s",
        "max_lifetime_s", "extension_s", "max_extensions", "max_idle_s", "ends_idle_batch", "use_rule", "use_window_s", "use_grace_s",
        "min_cpu_percent", "min_mem_percent", "min_device_percent", "min_device_mem_percent",
    ),
}  # fmt: skip
# After `berth_sessions_added` by its name, so that whoever wrote the session has waited for all that it counts. A change that the present
# transaction made was there when it read. The order makes PostgreSQL begin at the first that may be new, however many are kept.
FUNCTIONS = """
CREATE FUNCTION berth_demand_terms() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    seen text := current_setting('berth.terms_seen', true);
BEGIN
    IF seen <> '' AND (
        SELECT true FROM sessions_app_termschange
        WHERE transaction_id >= pg_snapshot_xmin(seen::pg_snapshot)::text::bigint
            AND transaction_id < pg_snapshot_xmax(pg_current_snapshot())::text::bigint
            AND NOT pg_visible_in_snapshot(transaction_id::text::xid8, seen::pg_snapshot)
            AND transaction_id IS DISTINCT FROM pg_current_xact_id_if_assigned()::text::bigint
        ORDER BY transaction_id LIMIT 1
    ) IS NOT NULL THEN
        RAISE EXCEPTION 'the terms of this request were changed since it was read'
        USING ERRCODE = 'check_violation', CONSTRAINT = 'terms_stand';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER berth_terms_stand AFTER INSERT ON sessions_app_computesession
FOR EACH STATEMENT EXECUTE FUNCTION berth_demand_terms();

CREATE FUNCTION berth_note_terms() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO sessions_app_termschange AS change (transaction_id, noted_at)
    VALUES (pg_current_xact_id()::text::bigint, clock_timestamp())
    ON CONFLICT (transaction_id) DO UPDATE SET noted_at = EXCLUDED.noted_at WHERE change.noted_at < now();
    RETURN NULL;
END $$;
"""
TRIGGERS = "".join(
    f"""
CREATE TRIGGER berth_note_terms AFTER INSERT OR DELETE OR {update} ON {table}
FOR EACH STATEMENT EXECUTE FUNCTION berth_note_terms();
"""
    for table, update in (
        *((table, "UPDATE") for table in WHOLE),
        *((table, f"UPDATE OF {', '.join(columns)}") for table, columns in COLUMNS.items()),
    )
)
BACKWARD = """
DROP TRIGGER berth_terms_stand ON sessions_app_computesession;
DROP FUNCTION berth_demand_terms();
""" + "".join(f"DROP TRIGGER berth_note_terms ON {table};" for table in (*WHOLE, *COLUMNS))


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0048_count_one_session"),
        ("accounts", "0027_use_of_one_owner"),
        ("agents", "0015_words_of_rules"),
        ("images", "0002_readonly_root"),
    ]

    operations = [
        migrations.CreateModel(
            name="TermsChange",
            fields=[
                ("transaction_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("noted_at", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.RunSQL(FUNCTIONS + TRIGGERS, f"{BACKWARD} DROP FUNCTION berth_note_terms();"),
    ]
