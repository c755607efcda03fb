from django.apps import AppConfig


class SessionsConfig(AppConfig):
    name = "sessions_app"

    def ready(self) -> None:
        from sessions_app import closed_groups, group_rules, held, leaving
        from sessions_app.selectors import objection_to_folder_deletion
        from sessions_app.web import menu
        from vfolders import guards

        guards.register(objection_to_folder_deletion)
        closed_groups.register()
        group_rules.register()
        held.register()
        leaving.register()
        menu.register()
