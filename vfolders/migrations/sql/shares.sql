-- A share never leaves its domain, and never gives a right to who has the folder anyway.
CREATE FUNCTION berth_check_share() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    folder vfolders_vfolder;
BEGIN
    -- A change of the owner waits until the transaction ends.
    SELECT * INTO folder FROM vfolders_vfolder WHERE id = NEW.folder_id FOR SHARE;
    IF NEW.user_id = folder.owner_id OR NEW.project_id = folder.project_id THEN
        RAISE EXCEPTION 'a folder is not shared with its owner'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'share_not_with_owner';
    END IF;
    IF NOT EXISTS (SELECT FROM accounts_user WHERE id = NEW.user_id AND domain_id = folder.domain_id)
        AND NOT EXISTS (SELECT FROM accounts_project WHERE id = NEW.project_id AND domain_id = folder.domain_id)
    THEN
        RAISE EXCEPTION 'a folder is shared inside its domain only'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'share_in_domain';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER berth_share_checked BEFORE INSERT OR UPDATE OF folder_id, user_id, project_id ON vfolders_foldershare
    FOR EACH ROW EXECUTE FUNCTION berth_check_share();

-- Who becomes the owner has no share any more.
CREATE FUNCTION berth_drop_share_of_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM vfolders_foldershare WHERE folder_id = NEW.id AND (user_id = NEW.owner_id OR project_id = NEW.project_id);
    RETURN NULL;
END $$;

CREATE TRIGGER berth_folder_owner_changed AFTER UPDATE OF owner_id, project_id ON vfolders_vfolder
    FOR EACH ROW EXECUTE FUNCTION berth_drop_share_of_owner();
