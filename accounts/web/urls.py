"""Addresses of the profile, of one-time sign-in links, and of people, projects and domains."""

from django.urls import path
from django.views.generic import RedirectView

from accounts.web import (
    domains,
    entrance,
    invitations,
    languages,
    people,
    people_bulk,
    people_import,
    person,
    policies,
    projects,
    views,
)

urlpatterns = [
    path("profile/", views.profile, name="profile"),
    path("profile/tokens/", views.create_token, name="create-token"),
    path("profile/tokens/<int:keypair_id>/delete/", views.delete_token, name="delete-token"),
    path("profile/columns/", views.choose_columns, name="choose-columns"),
    path("people/", people.people_list, name="people"),
    path("people/export/", people.people_export, name="people-export"),
    path("people/new/", people.new_person, name="new-person"),
    path("people/import/", people_import.import_form, name="people-import-form"),
    path("people/import/template.csv", people_import.import_template, name="people-import-template"),
    path("people/import/<int:import_id>/", people_import.import_page, name="people-import"),
    path("people/import/<int:import_id>/start/", people_import.start_import, name="people-import-start"),
    path(
        "people/import/<int:import_id>/report.csv", people_import.import_report, name="people-import-report"
    ),
    path("people/import/<int:import_id>/links.csv", people_import.import_links, name="people-import-links"),
    path("people/edit/", people_bulk.edit_many, name="people-edit-many"),
    path("people/close/", people.close_many, name="people-close-many"),
    path("people/invitations/", invitations.invitation_list, name="invitations"),
    path(
        "people/invitations/<int:invitation_id>/revoke/",
        invitations.revoke_invitation,
        name="invitation-revoke",
    ),
    path("people/<int:user_id>/", person.person_page, name="person"),
    path("people/<int:user_id>/close/", person.close_person, name="close-person"),
    path("people/<int:user_id>/reopen/", person.reopen_person, name="reopen-person"),
    path("people/<int:user_id>/purge/", person.purge_person, name="purge-person"),
    path("projects/", projects.project_list, name="projects"),
    path("projects/<int:project_id>/", projects.project_page, name="project"),
    path("projects/<int:project_id>/state/", projects.change_project_state, name="project-state"),
    path("projects/<int:project_id>/purge/", projects.purge_project, name="project-purge"),
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
    path("language/", languages.choose_language, name="choose-language"),
    path("sign-in/once/<str:code>/", views.sign_in_once, name="sign-in-once"),
    path("invitation/<str:code>/", entrance.accept_invitation, name="invitation"),
    path("sign-up/", entrance.sign_up, name="sign-up"),
    path("account/signup/", RedirectView.as_view(pattern_name="sign-up"), name="account_signup"),
    # In front of allauth's page of this address: people do not change the e-mail that names them; superadmins do.
    path("account/email/", RedirectView.as_view(pattern_name="profile"), name="account_email"),
]
