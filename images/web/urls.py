from django.urls import path

from images.web import views

urlpatterns = [path("", views.image_list, name="images")]
