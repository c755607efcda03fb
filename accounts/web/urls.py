"""Placeholder."""

urlpatterns = []
