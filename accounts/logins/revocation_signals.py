"""Connects the models whose changes can revoke access, however the rows are written, to the
access-revocation broadcast.
"""

from typing import Any

from django.db.models import Model
from django.db.models.signals import post_delete, post_save

from accounts.models import BrowserLogin, Domain, Impersonation, KeyPair, Membership, Project, User
from common.messaging.access_revocation import broadcast_revocation_on_commit

WRITTEN = (User, Domain, Project, Membership, KeyPair)
DELETED = (*WRITTEN, BrowserLogin, Impersonation)
# Written at each sign-in; revokes nothing.
HARMLESS = frozenset({"last_login"})


def connect() -> None:
    for model in WRITTEN:
        post_save.connect(_on_save, sender=model, dispatch_uid=f"revocations-{model.__name__}")
    for deleted in DELETED:
        post_delete.connect(_on_delete, sender=deleted, dispatch_uid=f"revocations-{deleted.__name__}")


def _on_save(
    sender: type[Model], *, created: bool, update_fields: frozenset[str] | None, **more: Any
) -> None:
    if not created and not (update_fields and update_fields <= HARMLESS):
        broadcast_revocation_on_commit()


def _on_delete(sender: type[Model], **more: Any) -> None:
    broadcast_revocation_on_commit()
