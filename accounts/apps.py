from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"

    def ready(self) -> None:
        from django.contrib.auth.signals import user_logged_in
        from django.db.models.signals import post_delete

        from accounts import revocations, rule_members, second_factor, sign_ins, viewing
        from accounts.models import Viewing
        from accounts.web.languages import bring_language

        revocations.connect()
        sign_ins.connect()
        second_factor.connect()
        rule_members.connect()
        user_logged_in.connect(bring_language)
        post_delete.connect(viewing.record_end, sender=Viewing, dispatch_uid="audit-viewing")
