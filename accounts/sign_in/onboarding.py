"""Onboarding of one user: account, first projects, and password or sign-in link."""

from collections.abc import Sequence

from django.conf import settings
from django.db import transaction
from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.core.roles import Role
from accounts.models import User
from accounts.selectors import find_domain, manageable_projects
from accounts.sign_in.admin_control import update_sign_in
from accounts.tenancy.service import add_member, create_sign_in_link, create_user
from common.actors import Actor
from common.errors import NotFound
from common.values.text import quoted


@transaction.atomic
def onboard_user(
    *,
    actor: Actor,
    email: str,
    name: str = "",
    domain: str = "",
    role: Role = Role.USER,
    password: str = "",
    projects: Sequence[str] = (),
) -> tuple[User, str]:
    """Create a user with memberships in `projects`. Returns the user and, without a password, a
    one-time sign-in address valid for a day, else "". A password set by another user must be
    changed first. `domain` "" means the actor's own. Raises InvalidInput, NotFound,
    PermissionDenied, Conflict.
    """
    home = find_domain(actor, domain)
    user = create_user(actor=actor, email=email, name=name, domain=home, role=role, password=password or None)
    for project_name in dict.fromkeys(projects):
        project = manageable_projects(actor).filter(domain=home, name=project_name, is_active=True).first()
        if project is None:
            sentence = _("There is no project {name} in this domain.").format(name=quoted(project_name, 64))
            raise NotFound.at("projects", sentence)
        add_member(actor=actor, project=project, user=user)
    if password:
        return update_sign_in(actor=actor, user_id=user.pk, must_change_password=True), ""
    code = create_sign_in_link(actor=actor, user=user)
    return user, settings.BERTH_URL + reverse("sign-in-once", args=[code])
