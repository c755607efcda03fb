from django.urls import path

from sessions_app.gateway.api import AppTokenView

urlpatterns = [
    path("sessions/<uuid:session_id>/apps/<str:app>/token/", AppTokenView.as_view(), name="api-app-token")
]
