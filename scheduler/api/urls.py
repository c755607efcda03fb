from django.urls import path

from scheduler.api.queue import QueueView

urlpatterns = [path("queue/", QueueView.as_view(), name="api-queue")]
