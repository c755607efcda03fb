"""Rules by which devices are shared: choice, permissions and refusals."""

from typing import Any

import pytest

from accounts.core.roles import Role
from agents.core.isolation import Isolation
from agents.models import SharingRule
from agents.sharing.selectors import sharing_rule_for, sharing_rules_for
from agents.sharing.service import change_sharing_rule, create_sharing_rule, delete_sharing_rule
from common.actors import SYSTEM
from common.errors import InvalidInput, PermissionDenied
from common.models import AuditEntry
from tests.factories import actor_for, make_user
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db


def test_rule_of_a_model_precedes_that_of_all_models(place: Place) -> None:
    assert sharing_rule_for(place.group, "H100").mode == "slice"
    usual = create_sharing_rule(actor=SYSTEM, group_id=place.group.pk, mode="forbidden")
    own = create_sharing_rule(
        actor=SYSTEM, group_id=place.group.pk, model="H100", mode="memory", smallest_share=250
    )
    assert sharing_rules_for(place.group, ["H100", "A100"]) == {"H100": own, "A100": usual}
    assert (sharing_rule_for(place.group, "H100"), sharing_rule_for(place.group)) == (own, usual)
    assert (own.isolation, usual.isolation) == (Isolation.DRIVER, Isolation.UNKNOWN)
    changes = {"mode": "mps", "smallest_share": 250}
    change_sharing_rule(actor=SYSTEM, group_id=place.group.pk, rule_id=own.pk, changes=changes)
    assert AuditEntry.objects.get(action="agents.change_sharing_rule").changes == {"mode": ["memory", "mps"]}
    delete_sharing_rule(actor=SYSTEM, group_id=place.group.pk, rule_id=own.pk)
    assert sharing_rule_for(place.group, "H100") == usual


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"mode": "magic"}, "mode"),
        ({"mode": "hook"}, "hook_image"),
        ({"mode": "hook", "hook_image": " "}, "hook_image"),
        ({"mode": "mps", "hook_image": "registry/hook:1"}, "hook_image"),
        ({"mode": "slice", "smallest_share": 0}, "smallest_share"),
        ({"mode": "slice", "smallest_share": 1000}, "smallest_share"),
        ({"mode": "slice", "model": "H100"}, "__all__"),
    ],
)
def test_wrong_rule_is_refused_at_its_field(place: Place, columns: dict[str, Any], field: str) -> None:
    create_sharing_rule(actor=SYSTEM, group_id=place.group.pk, model="H100", mode="slice")
    with pytest.raises(InvalidInput) as refused:
        create_sharing_rule(actor=SYSTEM, group_id=place.group.pk, **columns)
    assert list(refused.value.fields) == [field]


def test_only_superadmins_write_rules(place: Place) -> None:
    admin = actor_for(make_user(domain=place.project.domain, role=Role.DOMAIN_ADMIN))
    with pytest.raises(PermissionDenied):
        create_sharing_rule(actor=admin, group_id=place.group.pk, mode="slice")
    assert not SharingRule.objects.exists()
