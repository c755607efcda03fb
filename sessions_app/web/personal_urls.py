"""URLs below /profile/: callbacks, dotfiles, start-up script."""

from django.urls import path

from sessions_app.web import personal

urlpatterns = [
    path("callbacks/", personal.callbacks_page, name="callbacks"),
    path("dotfiles/", personal.dotfiles_page, name="dotfiles"),
    path("dotfiles/remove/", personal.remove_dotfile, name="remove-dotfile"),
    path("startup-script/", personal.set_startup_script, name="set-startup-script"),
    path("startup-script/remove/", personal.remove_startup_script, name="remove-startup-script"),
]
