"""Addresses of the profile and of one-time sign-in links."""

from django.urls import path
from django.views.generic import RedirectView

from accounts.web import languages, views

urlpatterns = [
    path("profile/", views.profile, name="profile"),
    path("profile/tokens/", views.create_token, name="create-token"),
    path("profile/tokens/<int:keypair_id>/delete/", views.delete_token, name="delete-token"),
    path("profile/columns/", views.choose_columns, name="choose-columns"),
    path("language/", languages.choose_language, name="choose-language"),
    path("sign-in/once/<str:code>/", views.sign_in_once, name="sign-in-once"),
    # In front of allauth's page of this address: people do not change the e-mail that names them; superadmins do.
    path("account/email/", RedirectView.as_view(pattern_name="profile"), name="account_email"),
]
