from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "agents"

    def ready(self) -> None:
        from agents.selectors import image_holder_counts
        from agents.web import menu
        from images import holders

        holders.register(image_holder_counts)
        menu.register()
