"""Addresses under /api/v1/."""

from django.urls import path

from accounts.api.views import KeyPairListView, KeyPairView, MeView, ProjectListView

urlpatterns = [
    path("me/", MeView.as_view(), name="api-me"),
    path("projects/", ProjectListView.as_view(), name="api-projects"),
    path("keypairs/", KeyPairListView.as_view(), name="api-keypairs"),
    path("keypairs/<int:keypair_id>/", KeyPairView.as_view(), name="api-keypair"),
]
