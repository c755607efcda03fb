"""REST serializers of users, projects and domains for their administrators."""

from typing import Any

from rest_framework import serializers

from accounts.core.roles import ProjectRole, Role
from accounts.core.sign_in_requirements import SecondFactor
from accounts.models import OffBoarding
from common.rest.input import InputSerializer, TextField
from common.token_scopes import TokenScope

ROLES = [role.value for role in Role]
SCOPES = [scope.value for scope in TokenScope]
SECOND_FACTORS = [wish.value for wish in SecondFactor]
PROJECT_ROLES = [role.value for role in ProjectRole]
MOST_PROJECTS = 50


class DomainOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()


class MeOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    email = serializers.EmailField()
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=ROLES)
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


class UserProjectOut(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="project_id")
    name = serializers.CharField(source="project.name")
    role = serializers.ChoiceField(choices=PROJECT_ROLES)


class UserOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    email = serializers.EmailField()
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=ROLES)
    domain = serializers.CharField(source="domain.name")
    is_active = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    last_login = serializers.DateTimeField(allow_null=True)
    projects = UserProjectOut(source="memberships", many=True)


class UserCreateInput(InputSerializer):
    email = TextField(max_length=254)
    name = TextField(max_length=120, required=False, default="", allow_blank=True)
    domain = TextField(
        max_length=64,
        required=False,
        default="",
        allow_blank=True,
        help_text="Name of the domain; default: your own.",
    )
    role = serializers.ChoiceField(choices=ROLES, required=False, default=Role.USER.value)
    password = TextField(
        max_length=128,
        required=False,
        default="",
        allow_blank=True,
        help_text="Initial password, to be changed at the first sign-in. Without it, the response has "
        "a link for one sign-in.",
    )
    projects = serializers.ListField(
        child=TextField(max_length=64), required=False, default=list, max_length=MOST_PROJECTS
    )


class UserCreatedOut(UserOut):
    sign_in_url = serializers.CharField(
        help_text="Link that signs the user in once, within a day; shown only in this response. May be empty."
    )


class UserChangeInput(InputSerializer):
    email = TextField(max_length=254, required=False)
    name = TextField(max_length=120, required=False, allow_blank=True)
    domain = TextField(max_length=64, required=False)
    role = serializers.ChoiceField(choices=ROLES, required=False)


class ReportLineOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    is_done = serializers.BooleanField()
    sentence = serializers.CharField()


class OffBoardingOut(serializers.Serializer[Any]):
    asked_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    folders = serializers.ChoiceField(choices=OffBoarding.Folders.values)
    heir = serializers.CharField(source="heir.email", default="")
    report = ReportLineOut(many=True)


class ClosingOut(serializers.Serializer[Any]):
    is_active = serializers.BooleanField()
    affected = serializers.ListField(child=serializers.CharField())
    offboarding = OffBoardingOut(allow_null=True)


class CloseInput(InputSerializer):
    folders = serializers.ChoiceField(
        choices=OffBoarding.Folders.values, required=False, default=OffBoarding.Folders.KEEP.value
    )
    heir = TextField(
        max_length=254,
        required=False,
        default="",
        allow_blank=True,
        help_text="E-mail address of the new owner of the folders, for hand_over.",
    )


class ManagedProjectOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    title = serializers.CharField()
    domain = serializers.CharField(source="domain.name")
    is_active = serializers.BooleanField()
    created_at = serializers.DateTimeField()


class ProjectCreateInput(InputSerializer):
    name = TextField(max_length=64)
    title = TextField(max_length=120, required=False, default="", allow_blank=True)
    domain = TextField(
        max_length=64,
        required=False,
        default="",
        allow_blank=True,
        help_text="Name of the domain; default: your own.",
    )


class DomainCreateInput(InputSerializer):
    name = TextField(max_length=64)
    title = TextField(max_length=120, required=False, default="", allow_blank=True)


class NamedChangeInput(InputSerializer):
    """Change of a project or a domain."""

    name = TextField(max_length=64, required=False)
    title = TextField(max_length=120, required=False, allow_blank=True)
    is_active = serializers.BooleanField(
        required=False, help_text="false archives a project or closes a domain."
    )


class DomainChangeInput(NamedChangeInput):
    second_factor = serializers.ChoiceField(
        choices=SECOND_FACTORS, required=False, help_text="Users for whom a second factor is required."
    )


class ManagedDomainOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    title = serializers.CharField()
    is_active = serializers.BooleanField()
    second_factor = serializers.ChoiceField(choices=SECOND_FACTORS)
    created_at = serializers.DateTimeField()


class MemberOut(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="user_id")
    email = serializers.EmailField(source="user.email")
    name = serializers.CharField(source="user.name")
    role = serializers.ChoiceField(choices=PROJECT_ROLES)
    is_by_rule = serializers.BooleanField(
        help_text="true if only a rule of the project made the user a member."
    )


class MemberInput(InputSerializer):
    email = TextField(max_length=254)
    role = serializers.ChoiceField(choices=PROJECT_ROLES, required=False, default=ProjectRole.MEMBER.value)
