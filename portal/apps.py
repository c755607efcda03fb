from django.apps import AppConfig


class PortalConfig(AppConfig):
    name = "portal"

    def ready(self) -> None:
        import portal.celery  # noqa: F401  # tasks are sent through this application, from every process
        from portal.notifications.subscribers import listen
        from portal.web import menu
        from portal.wiring import connect_ports

        connect_ports()
        menu.register()
        listen()
