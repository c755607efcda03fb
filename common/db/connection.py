"""PostgreSQL connection with a response timeout, and the errors for a database that does not
answer.

A server that is stopped, or behind a cut network, neither answers nor closes the connection;
without a timeout each thread would wait forever.
"""

from typing import Any, ClassVar, TypeVar
from uuid import UUID

import psycopg
from django.db import IntegrityError, InterfaceError, OperationalError
from django.utils.translation import gettext as _
from psycopg.abc import Buffer, PQGen
from psycopg.pq import TransactionStatus
from psycopg.types.array import ListDumper

from common.errors import BerthError, Conflict, Unavailable


class PlainListDumper(ListDumper):
    """Encodes lists of UUIDs, integers or texts; all others are left to psycopg. Same output."""

    def dump(self, obj: list[Any]) -> Buffer | None:
        kinds = set(map(type, obj))
        if kinds == {UUID}:
            return f"{{{','.join([each.hex for each in obj])}}}".encode()
        if kinds == {int}:
            return f"{{{','.join(map(str, obj))}}}".encode()
        # PostgreSQL allows no NUL in texts, so it is a safe separator.
        if kinds == {str} and (texts := "\0".join(obj)).count("\0") == len(obj) - 1:
            escaped = texts.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
            return f'{{"{escaped}"}}'.encode()
        return super().dump(obj)


RV = TypeVar("RV")

CONNECTION_ERRORS = (OperationalError, InterfaceError)
# PostgreSQL rolled back one of two conflicting transactions.
UNDONE = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
LOOKED_EVERY_S = 0.1


psycopg.adapters.register_dumper(list, PlainListDumper)


class TimeoutConnection(psycopg.Connection):  # type: ignore[type-arg]
    """Connection that is closed after `silence_s` without an answer (0: no limit), because a late
    answer would be taken for that to the next statement.
    """

    silence_s: ClassVar[float] = 15.0

    def wait(self, gen: PQGen[RV], interval: float = LOOKED_EVERY_S, timeout: float | None = None) -> RV:
        try:
            return super().wait(gen, interval, timeout or self.silence_s or None)
        except psycopg.OperationalError as error:
            # An error of the server has an SQLSTATE; otherwise the statement is still under way.
            if error.sqlstate or self.info.transaction_status is not TransactionStatus.ACTIVE:
                raise
            self.pgconn.finish()
            raise psycopg.OperationalError(
                f"The database has not answered within {self.silence_s:g} s."
            ) from error


def database_lost() -> Unavailable:
    """Return the refusal for a database that does not answer."""
    return Unavailable(
        _("The database of Berth does not answer."),
        hint=_("What was just asked may have been done or not: look again in a minute."),
        code="database_lost",
    )


def connection_error(error: BaseException | None) -> BaseException | None:
    """Return the first of CONNECTION_ERRORS that `error` is, or in whose handling it was raised; None
    if it has nothing to do with the connection.

    A statement after a lost one fails otherwise: inside a transaction with a ProgrammingError.
    """
    while error is not None and not isinstance(error, CONNECTION_ERRORS):
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return error


def connection_refusal(lost: BaseException) -> BerthError:
    """Return the refusal for an error that is one of CONNECTION_ERRORS."""
    if not isinstance(lost.__cause__, UNDONE):
        return database_lost()
    return Conflict(
        _("Somebody else was changing the same, so this was not done."),
        hint=_("Look how it is now, and try again."),
        code="changed_meanwhile",
    )


def constraint_of(error: IntegrityError) -> str:
    """Return the name of the violated constraint or trigger rule; "" if unknown."""
    cause = error.__cause__
    return (cause.diag.constraint_name or "") if isinstance(cause, psycopg.Error) else ""
