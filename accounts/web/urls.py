"""Routes of profile, sign-in links, users, projects, domains, policies and budgets."""

from django.urls import path
from django.views.generic import RedirectView

from accounts.web import impersonation
from accounts.web.budgets import budgets, prices
from accounts.web.people import (
    bulk_edit,
    domains,
    invitations,
    person,
    project_rules,
    projects,
    user_import,
    users,
)
from accounts.web.policies import policies
from accounts.web.profile import keypairs, languages, profile, ssh_keys
from accounts.web.sign_in import oidc, sign_up

urlpatterns = [
    path("profile/", profile.profile, name="profile"),
    path("profile/security/", profile.security, name="security"),
    path("profile/security/logins/end/", profile.end_other_logins, name="end-other-logins"),
    path("profile/security/logins/<str:login_id>/end/", profile.end_login, name="end-login"),
    path("profile/tokens/", keypairs.keys_page, name="keys"),
    path("profile/tokens/<int:keypair_id>/", keypairs.token_page, name="token"),
    path("profile/tokens/<int:keypair_id>/rotate/", keypairs.rotate_token, name="rotate-token"),
    path("profile/tokens/<int:keypair_id>/state/", keypairs.change_token_state, name="token-state"),
    path("profile/tokens/<int:keypair_id>/delete/", keypairs.delete_token, name="delete-token"),
    path("profile/ssh-keys/", ssh_keys.ssh_keys_page, name="ssh-keys"),
    path("profile/ssh-keys/<int:ssh_key_id>/remove/", ssh_keys.remove_ssh_key, name="remove-ssh-key"),
    path("profile/columns/", profile.choose_columns, name="choose-columns"),
    path("people/", users.people_list, name="people"),
    path("people/export/", users.people_export, name="people-export"),
    path("people/new/", users.new_person, name="new-person"),
    path("people/import/", user_import.import_form, name="people-import-form"),
    path("people/import/template.csv", user_import.import_template, name="people-import-template"),
    path("people/import/<int:import_id>/", user_import.import_page, name="people-import"),
    path("people/import/<int:import_id>/start/", user_import.start_import, name="people-import-start"),
    path("people/import/<int:import_id>/report.csv", user_import.import_report, name="people-import-report"),
    path("people/import/<int:import_id>/links.csv", user_import.import_links, name="people-import-links"),
    path("people/edit/", bulk_edit.edit_many, name="people-edit-many"),
    path("people/close/", users.close_many, name="people-close-many"),
    path("people/invitations/", invitations.invitation_list, name="invitations"),
    path(
        "people/invitations/<int:invitation_id>/revoke/",
        invitations.revoke_invitation,
        name="invitation-revoke",
    ),
    path("people/<int:user_id>/", person.person_page, name="person"),
    path("people/<int:user_id>/view-as/", impersonation.view_as, name="person-view-as"),
    path("viewing/stop/", impersonation.stop_viewing, name="stop-viewing"),
    path("people/<int:user_id>/sign-in/", person.change_sign_in, name="person-sign-in"),
    path("people/<int:user_id>/logins/end/", person.end_logins, name="person-logins-end"),
    path("people/<int:user_id>/password-mail/", person.mail_password_link, name="person-password-mail"),
    path(
        "people/<int:user_id>/second-factor/reset/",
        person.reset_second_factor,
        name="person-second-factor-reset",
    ),
    path("people/<int:user_id>/close/", person.close_person, name="close-person"),
    path("people/<int:user_id>/reopen/", person.reopen_person, name="reopen-person"),
    path("people/<int:user_id>/purge/", person.purge_person, name="purge-person"),
    path("people/<int:user_id>/tokens/<int:keypair_id>/revoke/", keypairs.revoke_token, name="revoke-token"),
    path(
        "people/<int:user_id>/ssh-keys/<int:ssh_key_id>/revoke/",
        ssh_keys.revoke_ssh_key,
        name="revoke-ssh-key",
    ),
    path("projects/", projects.project_list, name="projects"),
    path("projects/<int:project_id>/", projects.project_page, name="project"),
    path("projects/<int:project_id>/state/", projects.change_project_state, name="project-state"),
    path("projects/<int:project_id>/purge/", projects.purge_project, name="project-purge"),
    path("projects/<int:project_id>/rules/", project_rules.project_rules, name="project-rules"),
    path("projects/<int:project_id>/members/", projects.add_member, name="project-members"),
    path(
        "projects/<int:project_id>/members/<int:user_id>/remove/",
        projects.remove_member,
        name="project-member-remove",
    ),
    path("domains/", domains.domain_list, name="domains"),
    path("domains/<int:domain_id>/", domains.domain_page, name="domain"),
    path("domains/<int:domain_id>/sign-up/", domains.change_sign_up, name="domain-sign-up"),
    path("domains/<int:domain_id>/state/", domains.change_domain_state, name="domain-state"),
    path("domains/<int:domain_id>/purge/", domains.purge_domain, name="domain-purge"),
    path("policies/", policies.policy_list, name="policies"),
    path("policies/new/", policies.new_policy, name="new-policy"),
    path("policies/<int:policy_id>/", policies.policy_page, name="policy"),
    path("policies/<int:policy_id>/default/", policies.make_default, name="policy-default"),
    path("policies/<int:policy_id>/delete/", policies.delete_policy, name="policy-delete"),
    path("policies/of/<slug:level>/<int:scope_id>/", policies.assign, name="policy-assign"),
    path("budgets/", budgets.budget_list, name="budgets"),
    path("budgets/new/", budgets.new_budget, name="new-budget"),
    path("budgets/<int:budget_id>/", budgets.budget_page, name="budget"),
    path("budgets/<int:budget_id>/delete/", budgets.delete_budget, name="budget-delete"),
    path("budgets/prices/", prices.price_list, name="prices"),
    path("budgets/prices/<int:price_id>/delete/", prices.delete_price, name="price-delete"),
    path("language/", languages.choose_language, name="choose-language"),
    path("sign-in/once/<str:code>/", profile.sign_in_once, name="sign-in-once"),
    path("invitation/<str:code>/", sign_up.accept_invitation, name="invitation"),
    path("sign-up/", sign_up.sign_up, name="sign-up"),
    path("sign-in/by/<slug:provider>/", oidc.begin_oidc, name="oidc"),
    path("sign-in/by/<slug:provider>/callback/", oidc.finish_oidc, name="oidc-callback"),
    # Overrides allauth's page: administrators decide how users sign in.
    path("account/3rdparty/", RedirectView.as_view(pattern_name="profile"), name="socialaccount_connections"),
    path("account/signup/", RedirectView.as_view(pattern_name="sign-up"), name="account_signup"),
    # Overrides allauth's page: only superadmins change the e-mail address of an account in use.
    path("account/email/", RedirectView.as_view(pattern_name="profile"), name="account_email"),
    # Part of the security page.
    path("account/2fa/webauthn/", RedirectView.as_view(pattern_name="security"), name="mfa_list_webauthn"),
]
