"""Describe all that a database holds besides its rows, to compare two databases."""

from collections.abc import Iterator

import psycopg

# Without what does not matter: the order of columns, and white space in functions.
QUERIES = {
    "table": """
        SELECT relname, relkind, relpersistence, relrowsecurity, relreplident, reloptions
        FROM pg_class WHERE relnamespace = 'public'::regnamespace
    """,
    "column": """
        SELECT attrelid::regclass, attname, format_type(atttypid, atttypmod), attnotnull, attidentity,
               attgenerated, attstorage, attcompression, attstattarget, attcollation::regcollation,
               pg_get_expr(adbin, adrelid)
        FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE relnamespace = 'public'::regnamespace AND relkind <> 'i' AND attnum > 0 AND NOT attisdropped
    """,
    "constraint": """
        SELECT conrelid::regclass, conname, convalidated, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    """,
    "index": """
        SELECT indexrelid::regclass, indisvalid, indisclustered, pg_get_indexdef(indexrelid)
        FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE relnamespace = 'public'::regnamespace
    """,
    "trigger": """
        SELECT tgrelid::regclass, tgname, tgenabled, pg_get_triggerdef(oid)
        FROM pg_trigger WHERE NOT tgisinternal
    """,
    "function": """
        SELECT oid::regprocedure,
               regexp_replace(regexp_replace(pg_get_functiondef(oid), '\\s+', ' ', 'g'), ' ?([()]) ?', '\\1', 'g')
        FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    """,
    "sequence": """
        SELECT seqrelid::regclass, seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache,
               seqcycle, refobjid::regclass, attname
        FROM pg_sequence
        LEFT JOIN pg_depend
            ON objid = seqrelid AND classid = 'pg_class'::regclass AND deptype IN ('a', 'i')
        LEFT JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
    """,
    "type": """
        SELECT oid::regtype, typtype, typnotnull, typdefault
        FROM pg_type WHERE typnamespace = 'public'::regnamespace
    """,
    "view": "SELECT viewname, definition FROM pg_views WHERE schemaname = 'public'",
    "rule": "SELECT tablename, rulename, definition FROM pg_rules WHERE schemaname = 'public'",
    "statistics": "SELECT stxname, pg_get_statisticsobjdef(oid) FROM pg_statistic_ext",
    "collation": """
        SELECT collname, collprovider, collisdeterministic, collcollate, colllocale
        FROM pg_collation WHERE collnamespace = 'public'::regnamespace
    """,
    "schema": "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_(toast|temp)'",
    "extension": "SELECT extname, extversion FROM pg_extension",
    "event trigger": "SELECT evtname, evtevent FROM pg_event_trigger",
    "comment": """
        SELECT objoid::regclass, description FROM pg_description JOIN pg_class ON pg_class.oid = objoid
        WHERE relnamespace = 'public'::regnamespace
    """,
}


def describe(connection: psycopg.Connection) -> set[tuple[str, ...]]:
    """Return a row of text for each table, column, constraint, index, trigger, function and so on."""
    return set(_describe(connection))


def _describe(connection: psycopg.Connection) -> Iterator[tuple[str, ...]]:
    for kind, query in QUERIES.items():
        for row in connection.execute(query):  # type: ignore[arg-type]
            yield (kind, *map(str, row))
