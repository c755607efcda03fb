from django.apps import AppConfig


class SessionsConfig(AppConfig):
    name = "sessions_app"

    def ready(self) -> None:
        from agents.events import ImageTransferEnded, ImageTransferProgressed
        from common.messaging.events import subscribe
        from sessions_app.launch.image_pull import continue_launches, push_progress
        from sessions_app.web import menu

        menu.register()
        subscribe(ImageTransferProgressed, push_progress)
        subscribe(ImageTransferEnded, continue_launches)
