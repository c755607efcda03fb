"""Addresses below /apps/."""

from django.urls import path

from sessions_app.gateway.views import authorize

urlpatterns = [path("authorize/", authorize, name="app-authorize")]
