"""REST routes of accounts under /api/v1/."""

from django.urls import path

from accounts.api import (
    budgets,
    invitations,
    keypairs,
    member_rules,
    people,
    people_imports,
    policies,
    projects,
    sign_ins,
    ssh_keys,
)

urlpatterns = [
    path("me/", people.MeView.as_view(), name="api-me"),
    path("me/logins/", sign_ins.LoginListView.as_view(), name="api-logins"),
    path("me/logins/<str:login_id>/", sign_ins.LoginView.as_view(), name="api-login"),
    path("users/<int:user_id>/sign-in/", sign_ins.UserSignInView.as_view(), name="api-user-sign-in"),
    path(
        "users/<int:user_id>/second-factor/",
        sign_ins.UserSecondFactorView.as_view(),
        name="api-user-second-factor",
    ),
    path("users/<int:user_id>/logins/", sign_ins.UserLoginListView.as_view(), name="api-user-logins"),
    path(
        "users/<int:user_id>/password-mail/",
        sign_ins.UserPasswordMailView.as_view(),
        name="api-user-password-mail",
    ),
    path("users/", people.UserListView.as_view(), name="api-users"),
    path("users/<int:user_id>/", people.UserView.as_view(), name="api-user"),
    path("users/<int:user_id>/closing/", people.UserClosingView.as_view(), name="api-user-closing"),
    path("user-imports/", people_imports.PeopleImportListView.as_view(), name="api-user-imports"),
    path("user-imports/<int:import_id>/", people_imports.PeopleImportView.as_view(), name="api-user-import"),
    path(
        "user-imports/<int:import_id>/links/",
        people_imports.PeopleImportLinkView.as_view(),
        name="api-user-import-links",
    ),
    path(
        "user-imports/<int:import_id>/rows/",
        people_imports.PeopleImportRowListView.as_view(),
        name="api-user-import-rows",
    ),
    path("projects/", projects.ProjectListView.as_view(), name="api-projects"),
    path("projects/<int:project_id>/", projects.ProjectView.as_view(), name="api-project"),
    path("projects/<int:project_id>/rules/", member_rules.MemberRulesView.as_view(), name="api-member-rules"),
    path(
        "projects/<int:project_id>/rules/impact/",
        member_rules.RuleImpactView.as_view(),
        name="api-member-rules-impact",
    ),
    path("projects/<int:project_id>/members/", projects.MemberListView.as_view(), name="api-members"),
    path(
        "projects/<int:project_id>/members/<int:user_id>/", projects.MemberView.as_view(), name="api-member"
    ),
    path("domains/", projects.DomainListView.as_view(), name="api-domains"),
    path("domains/<int:domain_id>/", projects.DomainView.as_view(), name="api-domain"),
    path("policies/", policies.PolicyListView.as_view(), name="api-policies"),
    path("policies/assign/", policies.PolicyAssignmentView.as_view(), name="api-policy-assign"),
    path("policies/<int:policy_id>/", policies.PolicyView.as_view(), name="api-policy"),
    path("policies/<int:policy_id>/users/", policies.PolicyUserListView.as_view(), name="api-policy-users"),
    path("policies/<int:policy_id>/impact/", policies.PolicyImpactView.as_view(), name="api-policy-impact"),
    path(
        "domains/<int:domain_id>/sign-up/", invitations.DomainSignUpView.as_view(), name="api-domain-sign-up"
    ),
    path("invitations/", invitations.InvitationListView.as_view(), name="api-invitations"),
    path("invitations/<int:invitation_id>/", invitations.InvitationView.as_view(), name="api-invitation"),
    path("budgets/", budgets.BudgetListView.as_view(), name="api-budgets"),
    path("budgets/<int:budget_id>/", budgets.BudgetView.as_view(), name="api-budget"),
    path("budgets/impact/", budgets.BudgetImpactView.as_view(), name="api-budget-impact"),
    path(
        "budgets/<int:budget_id>/impact/",
        budgets.BudgetChangeImpactView.as_view(),
        name="api-budget-change-impact",
    ),
    path("prices/", budgets.PriceListView.as_view(), name="api-prices"),
    path("prices/<int:price_id>/", budgets.PriceView.as_view(), name="api-price"),
    path("limits/", policies.LimitListView.as_view(), name="api-limits"),
    path("keypairs/", keypairs.KeyPairListView.as_view(), name="api-keypairs"),
    path("keypairs/<int:keypair_id>/", keypairs.KeyPairView.as_view(), name="api-keypair"),
    path(
        "keypairs/<int:keypair_id>/rotate/", keypairs.KeyPairRotationView.as_view(), name="api-keypair-rotate"
    ),
    path("users/<int:user_id>/keypairs/", keypairs.UserKeyPairListView.as_view(), name="api-user-keypairs"),
    path(
        "users/<int:user_id>/keypairs/<int:keypair_id>/",
        keypairs.UserKeyPairView.as_view(),
        name="api-user-keypair",
    ),
    path("ssh-keys/", ssh_keys.SshKeyListView.as_view(), name="api-ssh-keys"),
    path("ssh-keys/<int:ssh_key_id>/", ssh_keys.SshKeyView.as_view(), name="api-ssh-key"),
    path("users/<int:user_id>/ssh-keys/", ssh_keys.UserSshKeyListView.as_view(), name="api-user-ssh-keys"),
    path(
        "users/<int:user_id>/ssh-keys/<int:ssh_key_id>/",
        ssh_keys.UserSshKeyView.as_view(),
        name="api-user-ssh-key",
    ),
]
