"""Create the smallest valid rows. Session states are reached through the lifecycle, not written."""

from collections.abc import Collection
from itertools import count

from allauth.mfa.models import Authenticator
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from rest_framework.test import APIClient

from accounts.core.roles import ProjectRole, Role
from accounts.credentials import keypairs
from accounts.limits import default_policy
from accounts.models import Domain, Membership, Project, User
from accounts.sign_in.second_factor import SecondFactorAdapter
from accounts.tenancy import service
from common.actors import Actor, ActorKind

APP_SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
PASSWORD = "a quiet harbour"
_numbers = count(1)


def make_domain(name: str = "") -> Domain:
    return Domain.objects.create(name=name or f"domain-{next(_numbers)}")


def make_project(domain: Domain | None = None, name: str = "") -> Project:
    return Project.objects.create(domain=domain or make_domain(), name=name or f"project-{next(_numbers)}")


def make_user(
    *,
    domain: Domain | None = None,
    role: Role = Role.USER,
    email: str = "",
    member_of: Project | None = None,
    admin_of: Project | None = None,
) -> User:
    """Create a user with PASSWORD; default domain: that of the given project."""
    project = member_of or admin_of
    user = User(
        email=email or f"person-{next(_numbers)}@berth.example",
        domain=domain or (project.domain if project else make_domain()),
        role=role.value,
        policy=default_policy(),
    )
    user.set_password(PASSWORD)
    user.save()
    service.grant_domain_permissions(user)
    if project:
        own = ProjectRole.ADMIN if admin_of else ProjectRole.MEMBER
        Membership.objects.create(project=project, user=user, role=own.value)
        service.grant_project_permissions(user)
    return user


def actor_for(user: User) -> Actor:
    """Return the actor of a request by `user`."""
    return Actor(
        kind=ActorKind.USER,
        user_id=user.pk,
        label=user.email,
        domain_id=user.domain_id,
        is_superadmin=user.is_superuser,
        is_monitor=user.is_monitor,
        is_domain_monitor=user.is_domain_monitor,
    )


def make_token(user: User, name: str = "test", scopes: Collection[str] | None = None) -> str:
    _, token = keypairs.create_keypair(actor=actor_for(user), name=name, scopes=scopes)
    return token


def make_public_key() -> str:
    """Return a new SSH public key."""
    key = Ed25519PrivateKey.generate().public_key()
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def api_client(user: User | None = None) -> APIClient:
    """Return a REST client with a token of `user`, or an anonymous one."""
    client = APIClient()
    if user is not None:
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(user)}")
    return client


def give_app(user: User) -> None:
    """Give the user an authenticator app whose codes are made from APP_SECRET."""
    data = {"secret": SecondFactorAdapter().encrypt(APP_SECRET)}
    Authenticator.objects.create(user=user, type=Authenticator.Type.TOTP, data=data)
