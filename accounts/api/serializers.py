"""REST serializers of the caller's own account, API tokens and memberships."""

from datetime import timedelta
from typing import Any

from rest_framework import serializers

from accounts.core.roles import Role
from accounts.core.token_secrets import DEFAULT_LIFETIME, LONGEST_GRACE, check_token_name
from common.rest.input import InputSerializer, TextField
from common.token_scopes import TokenScope

SCOPES = [scope.value for scope in TokenScope]


class DomainOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()


class MeOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    email = serializers.EmailField()
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=[role.value for role in Role])
    domain = DomainOut()


class OwnTokenOut(serializers.Serializer[Any]):
    """The token that authenticates the request."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=SCOPES))
    expires_at = serializers.DateTimeField(allow_null=True)


class WhoAmIOut(MeOut):
    token = OwnTokenOut(
        allow_null=True, help_text="Token that authenticates the request; null for a browser."
    )


class KeyPairOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    access_key = serializers.CharField()
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=SCOPES))
    is_active = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    last_used_ip = serializers.IPAddressField(allow_null=True)
    old_secret_until = serializers.DateTimeField(
        allow_null=True, help_text="End of the period during which the previous secret still works."
    )


def scopes_field(**options: Any) -> serializers.ListField:
    return serializers.ListField(
        child=serializers.ChoiceField(choices=SCOPES), required=False, max_length=len(SCOPES), **options
    )


class KeyPairCreateInput(InputSerializer):
    name = TextField(check=check_token_name, help_text="Name of the token, 1 to 60 characters.")
    scopes = scopes_field(
        help_text="Scopes of the token; default: all scopes of your present token or login."
    )
    expires_at = serializers.DateTimeField(
        required=False,
        allow_null=True,
        help_text=f"null: never. Default: in {DEFAULT_LIFETIME.days} days. Not later than that of the token that you use.",
    )


class KeyPairChangeInput(InputSerializer):
    name = TextField(check=check_token_name, required=False)
    scopes = scopes_field()
    is_active = serializers.BooleanField(
        required=False, help_text="false suspends the token until it is true again."
    )


class HoursField(serializers.FloatField):
    """Number of hours; rejects booleans and numeric strings."""

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        return super().to_internal_value(data)


class KeyPairRotateInput(InputSerializer):
    grace_hours = HoursField(
        required=False,
        default=0,
        min_value=0,
        max_value=LONGEST_GRACE / timedelta(hours=1),
        help_text="Hours during which the previous secret still works; default: 0.",
    )


class KeyPairCreatedOut(KeyPairOut):
    token = serializers.CharField(
        help_text="Text of the token; shown only in this response, as Berth stores only a hash."
    )
