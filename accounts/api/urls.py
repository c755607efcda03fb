"""REST routes of accounts under /api/v1/."""

from django.urls import path

from accounts.api.budgets import (
    BudgetChangeImpactView,
    BudgetImpactView,
    BudgetListView,
    BudgetView,
    PriceListView,
    PriceView,
)
from accounts.api.invitations import DomainSignUpView, InvitationListView, InvitationView
from accounts.api.keypairs import (
    KeyPairListView,
    KeyPairRotationView,
    KeyPairView,
    UserKeyPairListView,
    UserKeyPairView,
)
from accounts.api.member_rules import MemberRulesView, RuleImpactView
from accounts.api.people import MeView, UserClosingView, UserListView, UserView
from accounts.api.people_imports import (
    PeopleImportLinkView,
    PeopleImportListView,
    PeopleImportRowListView,
    PeopleImportView,
)
from accounts.api.policies import (
    LimitListView,
    PolicyAssignmentView,
    PolicyImpactView,
    PolicyListView,
    PolicyUserListView,
    PolicyView,
)
from accounts.api.projects import (
    DomainListView,
    DomainView,
    MemberListView,
    MemberView,
    ProjectListView,
    ProjectView,
)
from accounts.api.sign_ins import (
    LoginListView,
    LoginView,
    UserLoginListView,
    UserPasswordMailView,
    UserSecondFactorView,
    UserSignInView,
)
from accounts.api.ssh_keys import SshKeyListView, SshKeyView, UserSshKeyListView, UserSshKeyView

urlpatterns = [
    path("me/", MeView.as_view(), name="api-me"),
    path("me/logins/", LoginListView.as_view(), name="api-logins"),
    path("me/logins/<str:login_id>/", LoginView.as_view(), name="api-login"),
    path("users/<int:user_id>/sign-in/", UserSignInView.as_view(), name="api-user-sign-in"),
    path("users/<int:user_id>/second-factor/", UserSecondFactorView.as_view(), name="api-user-second-factor"),
    path("users/<int:user_id>/logins/", UserLoginListView.as_view(), name="api-user-logins"),
    path("users/<int:user_id>/password-mail/", UserPasswordMailView.as_view(), name="api-user-password-mail"),
    path("users/", UserListView.as_view(), name="api-users"),
    path("users/<int:user_id>/", UserView.as_view(), name="api-user"),
    path("users/<int:user_id>/closing/", UserClosingView.as_view(), name="api-user-closing"),
    path("user-imports/", PeopleImportListView.as_view(), name="api-user-imports"),
    path("user-imports/<int:import_id>/", PeopleImportView.as_view(), name="api-user-import"),
    path("user-imports/<int:import_id>/links/", PeopleImportLinkView.as_view(), name="api-user-import-links"),
    path(
        "user-imports/<int:import_id>/rows/", PeopleImportRowListView.as_view(), name="api-user-import-rows"
    ),
    path("projects/", ProjectListView.as_view(), name="api-projects"),
    path("projects/<int:project_id>/", ProjectView.as_view(), name="api-project"),
    path("projects/<int:project_id>/rules/", MemberRulesView.as_view(), name="api-member-rules"),
    path("projects/<int:project_id>/rules/impact/", RuleImpactView.as_view(), name="api-member-rules-impact"),
    path("projects/<int:project_id>/members/", MemberListView.as_view(), name="api-members"),
    path("projects/<int:project_id>/members/<int:user_id>/", MemberView.as_view(), name="api-member"),
    path("domains/", DomainListView.as_view(), name="api-domains"),
    path("domains/<int:domain_id>/", DomainView.as_view(), name="api-domain"),
    path("policies/", PolicyListView.as_view(), name="api-policies"),
    path("policies/assign/", PolicyAssignmentView.as_view(), name="api-policy-assign"),
    path("policies/<int:policy_id>/", PolicyView.as_view(), name="api-policy"),
    path("policies/<int:policy_id>/users/", PolicyUserListView.as_view(), name="api-policy-users"),
    path("policies/<int:policy_id>/impact/", PolicyImpactView.as_view(), name="api-policy-impact"),
    path("domains/<int:domain_id>/sign-up/", DomainSignUpView.as_view(), name="api-domain-sign-up"),
    path("invitations/", InvitationListView.as_view(), name="api-invitations"),
    path("invitations/<int:invitation_id>/", InvitationView.as_view(), name="api-invitation"),
    path("budgets/", BudgetListView.as_view(), name="api-budgets"),
    path("budgets/<int:budget_id>/", BudgetView.as_view(), name="api-budget"),
    path("budgets/impact/", BudgetImpactView.as_view(), name="api-budget-impact"),
    path(
        "budgets/<int:budget_id>/impact/", BudgetChangeImpactView.as_view(), name="api-budget-change-impact"
    ),
    path("prices/", PriceListView.as_view(), name="api-prices"),
    path("prices/<int:price_id>/", PriceView.as_view(), name="api-price"),
    path("limits/", LimitListView.as_view(), name="api-limits"),
    path("keypairs/", KeyPairListView.as_view(), name="api-keypairs"),
    path("keypairs/<int:keypair_id>/", KeyPairView.as_view(), name="api-keypair"),
    path("keypairs/<int:keypair_id>/rotate/", KeyPairRotationView.as_view(), name="api-keypair-rotate"),
    path("users/<int:user_id>/keypairs/", UserKeyPairListView.as_view(), name="api-user-keypairs"),
    path(
        "users/<int:user_id>/keypairs/<int:keypair_id>/", UserKeyPairView.as_view(), name="api-user-keypair"
    ),
    path("ssh-keys/", SshKeyListView.as_view(), name="api-ssh-keys"),
    path("ssh-keys/<int:ssh_key_id>/", SshKeyView.as_view(), name="api-ssh-key"),
    path("users/<int:user_id>/ssh-keys/", UserSshKeyListView.as_view(), name="api-user-ssh-keys"),
    path("users/<int:user_id>/ssh-keys/<int:ssh_key_id>/", UserSshKeyView.as_view(), name="api-user-ssh-key"),
]
