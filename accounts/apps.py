from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"

    def ready(self) -> None:
        from django.contrib.auth.signals import user_logged_in
        from django.db.models.signals import post_delete

        from accounts.logins import impersonation, revocation_signals
        from accounts.models import Impersonation
        from accounts.sign_in import audit_events, second_factor
        from accounts.tenancy import membership_sync
        from accounts.web.profile.languages import restore_language

        revocation_signals.connect()
        audit_events.connect()
        second_factor.connect()
        membership_sync.connect()
        user_logged_in.connect(restore_language)
        post_delete.connect(
            impersonation.record_impersonation_end, sender=Impersonation, dispatch_uid="audit-viewing"
        )
