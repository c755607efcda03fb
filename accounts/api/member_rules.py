"""REST endpoints of a project's membership rules."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.core.authorization import Action
from accounts.core.membership_rules import LONGEST_GROUP, MOST_RULES, RuleKind
from accounts.models import Project
from accounts.selectors import access_project, actions_on_project, read_actor_scope
from accounts.tenancy import membership_sync
from accounts.tenancy.membership_rules import read_rules, rule_failures
from common.actors import Actor
from common.rest.actor import actor_of
from common.rest.input import InputSerializer, TextField
from common.token_scopes import FOR_ADMIN

SHOWN_FAILURES = 100
KINDS = [(kind.value, kind.value) for kind in RuleKind]


class MemberRuleInput(InputSerializer):
    kind = serializers.ChoiceField(
        choices=KINDS,
        help_text="all: every user of the domain; mail: users with an address of a mail domain; "
        "group: users in a group of an identity provider.",
    )
    value = TextField(
        max_length=LONGEST_GROUP,
        required=False,
        default="",
        allow_blank=True,
        help_text="For mail the part of addresses after the @, for group “provider:group”, for all empty.",
    )


class MemberRulesInput(InputSerializer):
    rules = serializers.ListField(child=MemberRuleInput(), max_length=MOST_RULES)


class MemberRuleOut(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=KINDS)
    value = serializers.CharField(allow_blank=True)


class RuleFailureOut(serializers.Serializer[Any]):
    email = serializers.CharField(source="user.email")
    reason = serializers.CharField(help_text="Message, or name of an error with details in the log.")
    since = serializers.DateTimeField()
    tried_at = serializers.DateTimeField(help_text="Time of the last attempt.")


class MemberRulesOut(serializers.Serializer[Any]):
    rules = MemberRuleOut(many=True)
    failures = RuleFailureOut(
        many=True,
        help_text="First 100 users to whom the rules could not be applied; only shown to users who "
        "may change the rules.",
    )


class RuleImpactOut(serializers.Serializer[Any]):
    joining_count = serializers.IntegerField()
    leaving_count = serializers.IntegerField()
    joining = serializers.ListField(
        child=serializers.CharField(), help_text="E-mail addresses of the first of them."
    )
    leaving = serializers.ListField(
        child=serializers.CharField(), help_text="E-mail addresses of the first of them."
    )


class MemberRulesView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="read_member_rules", responses={200: MemberRulesOut})
    def get(self, request: Request, project_id: int) -> Response:
        """Show the membership rules of a project. A user who matches one rule becomes a member."""
        actor = actor_of(request)
        return _answer(actor, access_project(actor, project_id, Action.VIEW_MEMBERS))

    @extend_schema(
        operation_id="write_member_rules", request=MemberRulesInput, responses={200: MemberRulesOut}
    )
    def put(self, request: Request, project_id: int) -> Response:
        """Replace the membership rules. Users join and leave within a minute; members added by hand
        stay.
        """
        actor = actor_of(request)
        access_project(actor, project_id, Action.EDIT)
        rules = _rules_in(request)
        project = membership_sync.set_member_rules(actor=actor, project_id=project_id, rules=rules)
        return _answer(actor, project)


class RuleImpactView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="check_member_rules", request=MemberRulesInput, responses={200: RuleImpactOut}
    )
    def post(self, request: Request, project_id: int) -> Response:
        """Show the users who would join or leave under these rules. Changes nothing."""
        project = access_project(actor_of(request), project_id, Action.EDIT)
        rules = membership_sync.parse_rules(_rules_in(request))
        return Response(RuleImpactOut(membership_sync.rules_impact(project, rules)).data)


def _rules_in(request: Request) -> list[tuple[str, str]]:
    return [(rule["kind"], rule["value"]) for rule in MemberRulesInput.parse(request)["rules"]]


def _answer(actor: Actor, project: Project) -> Response:
    may_edit = Action.EDIT in actions_on_project(read_actor_scope(actor), project)
    failures = rule_failures(project)[:SHOWN_FAILURES] if may_edit else ()
    return Response(MemberRulesOut({"rules": read_rules(project), "failures": failures}).data)
