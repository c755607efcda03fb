ALTER TABLE agents_agentslot SET (fillfactor = 50);
ALTER TABLE agents_agentdevice SET (fillfactor = 50);

CREATE FUNCTION berth_refuse_overfull() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'slot % of agent % has % and promises % more: % are too much',
        NEW.slot_name, NEW.agent_id, NEW.capacity, NEW.surplus, NEW.occupied
        USING ERRCODE = 'check_violation', CONSTRAINT = 'agent_slot_not_overfull', TABLE = 'agents_agentslot';
END $$;

CREATE TRIGGER berth_slot_not_overfull BEFORE UPDATE OF occupied ON agents_agentslot
    FOR EACH ROW WHEN (((new.occupied > old.occupied) AND (new.occupied > (new.capacity + new.surplus))))
    EXECUTE FUNCTION berth_refuse_overfull();
