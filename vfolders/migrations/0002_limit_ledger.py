"""Count folders in the limit ledger, for their user or project and their domain, until they are
deleted (ADR 0024).
"""

from django.db import migrations

FORWARD = """
CREATE FUNCTION berth_folder_use(domain_id bigint, project_id bigint, owner_id bigint, state text)
RETURNS TABLE (level text, scope_id bigint, resource text) LANGUAGE sql IMMUTABLE AS $$
    SELECT scope.level, scope.id, 'folders'
    FROM (VALUES ('domain', domain_id), ('project', project_id), ('user', owner_id)) AS scope (level, id)
    WHERE scope.id IS NOT NULL AND state = 'ready'
$$;

CREATE FUNCTION berth_count_folders() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(1::bigint))
        FROM added, LATERAL berth_folder_use(
            added.domain_id, added.project_id, added.owner_id, added.state) AS part;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(-1::bigint))
        FROM removed, LATERAL berth_folder_use(
            removed.domain_id, removed.project_id, removed.owner_id, removed.state) AS part;
    ELSE
        -- A folder that an administrator hands over counts, and is not refused.
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(part.amount), false)
        FROM (
            SELECT now.*, 1::bigint AS amount FROM added, LATERAL berth_folder_use(
                added.domain_id, added.project_id, added.owner_id, added.state) AS now
            UNION ALL
            SELECT was.*, -1 FROM removed, LATERAL berth_folder_use(
                removed.domain_id, removed.project_id, removed.owner_id, removed.state) AS was
        ) AS part;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER berth_folders_added AFTER INSERT ON vfolders_vfolder
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION berth_count_folders();
CREATE TRIGGER berth_folders_changed AFTER UPDATE ON vfolders_vfolder
    REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION berth_count_folders();
CREATE TRIGGER berth_folders_removed AFTER DELETE ON vfolders_vfolder
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION berth_count_folders();

INSERT INTO accounts_limituse (level, scope_id, resource, used)
SELECT part.level, part.scope_id, part.resource, count(*)
FROM vfolders_vfolder AS folder,
LATERAL berth_folder_use(folder.domain_id, folder.project_id, folder.owner_id, folder.state) AS part
GROUP BY part.level, part.scope_id, part.resource;
"""

BACKWARD = """
DROP TRIGGER berth_folders_removed ON vfolders_vfolder;
DROP TRIGGER berth_folders_changed ON vfolders_vfolder;
DROP TRIGGER berth_folders_added ON vfolders_vfolder;
DROP FUNCTION berth_count_folders();
DROP FUNCTION berth_folder_use(bigint, bigint, bigint, text);
DELETE FROM accounts_limituse WHERE resource = 'folders';
"""


class Migration(migrations.Migration):
    dependencies = [("vfolders", "0001_folders"), ("accounts", "0005_policies")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
