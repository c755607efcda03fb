CREATE OR REPLACE FUNCTION berth_folder_use(domain_id bigint, project_id bigint, owner_id bigint, state text, size_bytes bigint)
RETURNS TABLE(level text, scope_id bigint, resource text, amount bigint)
LANGUAGE sql IMMUTABLE AS $$
    SELECT scope.level, scope.id, part.resource, part.amount
    FROM (VALUES ('domain', domain_id), ('project', project_id), ('user', owner_id)) AS scope (level, id),
        (VALUES ('folders', 1), ('folder_bytes', size_bytes)) AS part (resource, amount)
    WHERE scope.id IS NOT NULL AND state <> 'deleting'
$$;

