"""What goes over the wire about people. Flat; named for the operation."""

from typing import Any

from rest_framework import serializers

from accounts.roles import Role
from accounts.tokens import check_token_name
from common.api import InputSerializer, TextField


class DomainOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()


class MeOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    email = serializers.EmailField()
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=[role.value for role in Role])
    domain = DomainOut()


class KeyPairOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    access_key = serializers.CharField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)


class KeyPairCreateInput(InputSerializer):
    name = TextField(check=check_token_name, help_text="1 to 60 characters.")
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


class KeyPairCreatedOut(KeyPairOut):
    token = serializers.CharField(help_text="Shown this once; Berth keeps only its hash.")
