"""URL patterns under /api/v1/."""

from django.urls import path

from images.api.views import ImageListView

urlpatterns = [
    path("images/", ImageListView.as_view(), name="api-images"),
]
