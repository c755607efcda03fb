from django.apps import AppConfig


class PortalConfig(AppConfig):
    name = "portal"

    def ready(self) -> None:
        from django.utils import translation

        import portal.celery  # noqa: F401  # tasks are sent through this application, from every process
        from common.error_pages import ask_for_helpers
        from common.languages import translate_with
        from common.refusals import know_objects
        from portal.audit.words import PARAMETERS
        from portal.listeners import listen
        from portal.selectors import helpers_of
        from portal.web import menu

        translate_with(translation.gettext, translation.ngettext)
        menu.register()
        listen()
        ask_for_helpers(helpers_of)
        know_objects(PARAMETERS)
