CREATE FUNCTION berth_folder_use(domain_id bigint, project_id bigint, owner_id bigint, state text, size_bytes bigint)
RETURNS TABLE(level text, scope_id bigint, resource text, amount bigint)
LANGUAGE sql IMMUTABLE AS $$
    SELECT scope.level, scope.id, part.resource, part.amount
    FROM (VALUES ('domain', domain_id), ('project', project_id), ('user', owner_id)) AS scope (level, id),
        (VALUES ('folders', 1), ('folder_bytes', size_bytes)) AS part (resource, amount)
    WHERE scope.id IS NOT NULL AND state = 'ready'
$$;

CREATE FUNCTION berth_count_folders() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(part.amount))
        FROM added, LATERAL berth_folder_use(
            added.domain_id, added.project_id, added.owner_id, added.state, added.size_bytes) AS part;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(-part.amount))
        FROM removed, LATERAL berth_folder_use(
            removed.domain_id, removed.project_id, removed.owner_id, removed.state, removed.size_bytes) AS part;
    ELSE
        -- A folder that an administrator hands over counts, and is not refused; nor is a size that was measured.
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(part.amount), false)
        FROM (
            SELECT now.level, now.scope_id, now.resource, now.amount FROM added, LATERAL berth_folder_use(
                added.domain_id, added.project_id, added.owner_id, added.state, added.size_bytes) AS now
            UNION ALL
            SELECT was.level, was.scope_id, was.resource, -was.amount FROM removed, LATERAL berth_folder_use(
                removed.domain_id, removed.project_id, removed.owner_id, removed.state, removed.size_bytes) AS was
        ) AS part;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER berth_folders_added AFTER INSERT ON vfolders_vfolder
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT
    EXECUTE FUNCTION berth_count_folders();

CREATE TRIGGER berth_folders_changed AFTER UPDATE ON vfolders_vfolder
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT
    EXECUTE FUNCTION berth_count_folders();

CREATE TRIGGER berth_folders_removed AFTER DELETE ON vfolders_vfolder
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT
    EXECUTE FUNCTION berth_count_folders();
