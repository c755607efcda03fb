"""URLs below /apps/."""

from django.urls import path

from sessions_app.gateway.views import authorize, open_app

urlpatterns = [
    path("authorize/", authorize, name="app-authorize"),
    path("<uuid:session_id>/<str:app>/", open_app, name="app-open"),
]
