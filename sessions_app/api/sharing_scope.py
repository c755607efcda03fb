"""Token scopes for shared templates and presets."""

from rest_framework.request import Request

from accounts.credentials.keypairs import require_scopes
from accounts.models import KeyPair
from common.token_scopes import FOR_ADMIN
from sessions_app.core.template_rules import Sharing


def require_sharing_scope(request: Request, sharing: str) -> None:
    """Require the scope `admin` of a token that writes shared rows: otherwise a stolen token that
    may start sessions could inject commands into the sessions of others. Raises PermissionDenied.
    """
    if isinstance(request.auth, KeyPair) and sharing != Sharing.OWN:
        require_scopes(request.auth, FOR_ADMIN)
