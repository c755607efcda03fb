"""What tokens may do with things that are kept under a name for others."""

from rest_framework.request import Request

from accounts.credentials.keypairs import demand_scopes
from accounts.models import KeyPair
from common.token_scopes import FOR_ADMIN
from sessions_app.core.template_rules import Sharing


def demand_scope_to_share(request: Request, sharing: str) -> None:
    """A token writes what others start from only with the scope `admin`: else whoever gets hold of one that starts sessions has others run
    what they like. Raises PermissionDenied."""
    if isinstance(request.auth, KeyPair) and sharing != Sharing.OWN:
        demand_scopes(request.auth, FOR_ADMIN)
