"""Django settings, read from the environment; docs/settings.md lists each variable."""

import os
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import unquote, urlsplit

import django_stubs_ext
import environ
from csp.constants import NONCE, NONE, SELF

from accounts.core.identity_providers import read_directory, read_oidc_providers
from common.db.connection import TimeoutConnection
from common.http.ports import parse_ports
from common.logging_setup import configure_logging
from common.values.money import read_currency
from portal.worker_sizes import POOL_THREADS, WEB_CONNECTIONS

django_stubs_ext.monkeypatch()

ROOT = Path(__file__).resolve().parent.parent
DATA_DIR = Path(os.environ.get("BERTH_DATA", ROOT / "var")).absolute()

env = environ.Env()
env.read_env(DATA_DIR / "env")

SECRET_KEY = env.str("BERTH_SECRET_KEY")
DEBUG = False
BERTH_INSTALLATION = env.str("BERTH_INSTALLATION")
BERTH_ROLE = env.str("BERTH_ROLE", "all")
BERTH_URL = env.str("BERTH_URL")
BERTH_APPS_DOMAIN = env.str("BERTH_APPS_DOMAIN", "apps.localhost")
# 30 ports after the portal's own, for apps if browsers cannot resolve their host names.
_portal_port = urlsplit(BERTH_URL).port or 80
BERTH_APPS_PORTS = parse_ports(env.str("BERTH_APPS_PORTS", f"{_portal_port + 1}-{_portal_port + 30}"))
BERTH_APPS_BY_ADDRESS = env.str("BERTH_APPS_BY_ADDRESS", "allowed")
BERTH_CONTAINER_UID = env.int("BERTH_CONTAINER_UID", os.getuid() or 1000)
BERTH_CONTAINER_GID = env.int("BERTH_CONTAINER_GID", os.getgid() or 1000)
BERTH_ENGINE = env.str("BERTH_ENGINE", "unix:///var/run/docker.sock")
BERTH_SESSION_POOL = env.str("BERTH_SESSION_POOL", "10.213.0.0/16")
BERTH_RELAY_PORT = env.int("BERTH_RELAY_PORT", 2378)
BERTH_NETWORKS_AHEAD = env.int("BERTH_NETWORKS_AHEAD", 8)
BERTH_CLUSTER_POOL = env.str("BERTH_CLUSTER_POOL", "10.215.0.0/16")
BERTH_IMAGE_KEPT_DAYS = env.int("BERTH_IMAGE_KEPT_DAYS", 30)
BERTH_IMAGE_DISK_PERCENT = env.int("BERTH_IMAGE_DISK_PERCENT", 80)
BERTH_CLUSTER_MTU = env.int("BERTH_CLUSTER_MTU", 1450)
BERTH_WALLS = env.str("BERTH_WALLS", "required")
BERTH_LOST_AFTER_S = env.float("BERTH_LOST_AFTER_S", 12)
BERTH_LOST_GRACE_S = env.float("BERTH_LOST_GRACE_S", 300)
DATABASE_URL = env.str("DATABASE_URL")
REDIS_URL = env.str("REDIS_URL")

_url = urlsplit(BERTH_URL)
_own_hosts = [_url.hostname or "", "localhost", "127.0.0.1", "[::1]"]
ALLOWED_HOSTS = sorted({*_own_hosts, *env.list("BERTH_HOSTS", default=[])})
CSRF_TRUSTED_ORIGINS = [BERTH_URL]
USE_X_FORWARDED_HOST = False
if env.bool("BERTH_BEHIND_TLS_PROXY", False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "servestatic",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "django_filters",
    "guardian",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "django_htmx",
    "csp",
    "common",
    "accounts",
    "images",
    "agents",
    "vfolders",
    "sessions_app",
    "scheduler",
    "portal",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "sessions_app.gateway.proxy.hostname_redirect.ByNameMiddleware",
    "common.pages.middleware.RequestIdMiddleware",
    "common.pages.middleware.LastSlashMiddleware",
    "common.pages.middleware.StreamWithoutDatabaseMiddleware",
    "common.audit.denied_requests.RefusalsMiddleware",
    "accounts.api.permissions.RateHeadersMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "accounts.web.profile.languages.LanguageMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "accounts.web.impersonation.ImpersonationMiddleware",
    "accounts.web.sign_in.required_action_middleware.RequiredActionMiddleware",
    "common.pages.returned_forms.ReturnedFormsMiddleware",
    "common.pages.middleware.NulMiddleware",
    "common.pages.middleware.ErrorPageMiddleware",
]

ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.processes.asgi.application"
APPEND_SLASH = True

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.web.context.frame",
            ],
            "builtins": ["common.templatetags.form_token"],
        },
    }
]

TimeoutConnection.silence_s = env.float("BERTH_DB_SILENCE_S", 15)
BERTH_POOL_THREADS = POOL_THREADS
DATABASES = {"default": env.db_url_config(DATABASE_URL)}
DATABASES["default"].update(
    {
        "HOST": unquote(DATABASES["default"]["HOST"]),  # may be a socket directory
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,  # a server restart ends pooled connections
        # Connections idle for a minute are closed: each costs PostgreSQL a process.
        "OPTIONS": {
            "connect_timeout": 5,
            "pool": {
                "min_size": 1,
                "max_size": env.int("BERTH_DB_POOL", WEB_CONNECTIONS),
                "timeout": 10,
                "max_idle": 60,
                "reconnect_timeout": 5,  # afterwards each request tries immediately
                "connection_class": TimeoutConnection,
            },
        },
    }
)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# People
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "accounts.sign_in.auth_backends.SignInBackend",
    "accounts.sign_in.auth_backends.DirectoryBackend",
    "guardian.backends.ObjectPermissionBackend",
]
GUARDIAN_MONKEY_PATCH_USER = False
ANONYMOUS_USER_NAME = None
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "start"
ACCOUNT_ADAPTER = "accounts.sign_in.allauth_adapter.ClosedSignUpAdapter"
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGOUT_ON_GET = False
# Rate limits are enforced by accounts.sign_in.throttle instead.
ACCOUNT_RATE_LIMITS = dict.fromkeys(
    ("login", "login_failed", "reset_password", "change_password", "reauthenticate", "signup")
)
ACCOUNT_FORMS = {
    "login": "accounts.web.sign_in.allauth_forms.SignInForm",
    "reauthenticate": "accounts.web.sign_in.allauth_forms.ConfirmPasswordForm",
    "reset_password": "accounts.web.sign_in.allauth_forms.RequestResetForm",
    "reset_password_from_key": "accounts.web.sign_in.allauth_forms.ResetPasswordForm",
    "change_password": "accounts.web.sign_in.allauth_forms.ChangePasswordForm",
    "set_password": "accounts.web.sign_in.allauth_forms.SetPasswordForm",
}
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_PREVENT_ENUMERATION = True
# allauth's generator writes an unverified address row each time a link is opened.
ACCOUNT_PASSWORD_RESET_TOKEN_GENERATOR = "django.contrib.auth.tokens.PasswordResetTokenGenerator"
MFA_ADAPTER = "accounts.sign_in.second_factor.SecondFactorAdapter"
MFA_FORMS = {
    "add_webauthn": "accounts.web.sign_in.allauth_forms.AddPasskeyForm",
    "edit_webauthn": "accounts.web.sign_in.allauth_forms.RenamePasskeyForm",
    "activate_totp": "accounts.web.sign_in.allauth_forms.ActivateAppForm",
    "authenticate": "accounts.web.sign_in.allauth_forms.CodeForm",
    "reauthenticate": "accounts.web.sign_in.allauth_forms.ReauthenticationCodeForm",
}
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_ALLOW_UNVERIFIED_EMAIL = True  # administrators create accounts with known addresses
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_RECOVERY_CODE_DIGITS = 10
EMAIL_CONFIG = env.email_url("EMAIL_URL", default="consolemail://")
vars().update(EMAIL_CONFIG)
DEFAULT_FROM_EMAIL = env.str("BERTH_MAIL_FROM", f"berth@{_url.hostname}")
BERTH_MAIL = bool(env.str("EMAIL_URL", ""))  # is mail configured?
EMAIL_TIMEOUT = 10

# Requests per minute and token; 0: unlimited.
BERTH_PUBLIC_LINKS = env.bool("BERTH_PUBLIC_LINKS", True)
BERTH_TRASH_DAYS = env.int("BERTH_TRASH_DAYS", 7)
BERTH_STARTUP_SCRIPT_S = env.int("BERTH_STARTUP_SCRIPT_S", 60)
BERTH_WEBDAV = env.bool("BERTH_WEBDAV", True)
BERTH_TOKEN_REQUESTS = env.int("BERTH_TOKEN_REQUESTS", 3000)

# Session callbacks: allowed networks besides the internet, and calls per domain and minute.
BERTH_CALLBACK_NETWORKS = tuple(ip_network(text) for text in env.list("BERTH_CALLBACK_NETWORKS", default=[]))
BERTH_CALLBACK_FORBIDDEN_NETWORKS = tuple(
    ip_network(text) for text in env.list("BERTH_CALLBACK_FORBIDDEN_NETWORKS", default=[])
)
BERTH_CALLBACKS_PER_MINUTE = env.int("BERTH_CALLBACKS_PER_MINUTE", 300)

# Sign-in by identity providers
BERTH_OIDC_PROVIDERS = read_oidc_providers(os.environ)
BERTH_DIRECTORY = read_directory(os.environ)
SOCIALACCOUNT_REQUESTS_TIMEOUT = 5

# Currency of budgets and prices; empty: plain numbers.
BERTH_CURRENCY = read_currency(env.str("BERTH_CURRENCY", ""))

# Maximum duration of an impersonation in minutes; 0: disabled.
BERTH_VIEW_AS_MINUTES = env.int("BERTH_VIEW_AS_MINUTES", 30)

# Audit log: retention in days; 0: unlimited.
BERTH_AUDIT_DAYS = env.int("BERTH_AUDIT_DAYS", 365)

# Cookies and headers. `Secure` follows the portal's URL.
IS_HTTPS = _url.scheme == "https"
SESSION_ENGINE = "accounts.models.browser_login"
SESSION_COOKIE_NAME = "berth_session"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 14 * 24 * 3600
CSRF_COOKIE_NAME = "berth_csrf"
CSRF_COOKIE_SAMESITE = "Strict"
CSRF_COOKIE_HTTPONLY = True  # scripts read the token from the page; pages at other ports of the host must not
CSRF_FAILURE_VIEW = "common.pages.returned_forms.csrf_failure"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF, NONCE],
        "style-src": [SELF, NONCE],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
        "manifest-src": [SELF],
    }
}

# Static files: bin/up builds var/assets and var/languages, collectstatic gathers into var/static.
STATIC_URL = "/static/"
STATIC_ROOT = env.path("BERTH_STATIC_ROOT", default=str(ROOT / "var" / "static"))()
_built = [ROOT / "var" / "assets", ROOT / "var" / "languages" / "static"]
STATICFILES_DIRS = [path for path in _built if path.is_dir()]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "servestatic.storage.CompressedManifestStaticFilesStorage"},
}

# Bodies: folder uploads are streamed through files in the data directory; all others are small.
FILE_UPLOAD_TEMP_DIR = DATA_DIR / "uploads"
FILE_UPLOAD_TEMP_DIR.mkdir(parents=True, exist_ok=True)
DATA_UPLOAD_MAX_MEMORY_SIZE = 2**20 * 2
DATA_UPLOAD_MAX_NUMBER_FIELDS = 1000

# Languages: manage.py build_languages compiles portal/locale to LANGUAGES_BUILT.
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("ko", "한국어"), ("ja", "日本語")]
LANGUAGES_BUILT = ROOT / "var" / "languages"
LOCALE_PATHS = [LANGUAGES_BUILT]
LANGUAGE_COOKIE_NAME = "berth_language"
LANGUAGE_COOKIE_SECURE = IS_HTTPS
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "accounts.api.authentication.KeyPairAuthentication",
        "accounts.api.authentication.BrowserAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "accounts.api.permissions.TokenPermission",
    ],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["common.rest.parsers.StrictJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "common.rest.pagination.StandardPagination",
    "DEFAULT_FILTER_BACKENDS": ["common.rest.input.FilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "common.rest.openapi.OperationSchema",
    "EXCEPTION_HANDLER": "common.rest.errors.render_error",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Berth",
    "DESCRIPTION": (
        "REST API with all functions of the pages. Authenticate with `Authorization: Bearer <token>`."
    ),
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": [
        "rest_framework.permissions.IsAuthenticated",
        "accounts.api.permissions.TokenPermission",
    ],
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "PATH_CONVERTER_OVERRIDES": {"entry_path": {"type": "string"}},
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "SharingEnum": "sessions_app.api.sharing.SHARINGS",
        "LevelEnum": "accounts.api.policy_serializers.LEVELS",
        "GrantLevelEnum": "agents.api.serializers.GRANT_LEVELS",
        "SharingModeEnum": "agents.api.sharing.MODES",
        "RoleEnum": "accounts.api.people_serializers.ROLES",
        "SignUpEnum": "accounts.api.invitations.WAYS",
        "InvitationStateEnum": "accounts.api.invitations.STATES",
        "MemberRuleKindEnum": "accounts.api.member_rules.KINDS",
        "SessionOutStatusEnum": "sessions_app.api.serializers.STATUSES",
        "FolderModeEnum": "vfolders.api.serializers.MODES",
        "FolderStateEnum": "vfolders.api.serializers.STATES",
        "FolderRightEnum": "vfolders.api.sharing.RIGHTS",
        "InvitationRightEnum": "vfolders.api.sharing.INVITATION_RIGHTS",
        "ProjectRoleEnum": "accounts.api.people_serializers.PROJECT_ROLES",
    },
}

CACHES = {
    "default": {
        "BACKEND": "common.messaging.cache.FallbackRedisCache",
        "LOCATION": REDIS_URL,
        "OPTIONS": {"socket_timeout": 5, "socket_connect_timeout": 2},
        "KEY_PREFIX": f"berth:{BERTH_INSTALLATION}",
    }
}

# Celery: task arguments are ids; tasks may run twice, late or never.
CELERY_BROKER_URL = REDIS_URL
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "global_keyprefix": f"berth:{BERTH_INSTALLATION}:",
    "visibility_timeout": 3600,
    "socket_timeout": 30,
    "socket_connect_timeout": 3,
    "retry_policy": {"timeout": 3.0},
}
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_TIME_LIMIT = 3600
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 2, "interval_start": 0.1, "interval_max": 0.5}
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False

LOGGING_CONFIG = None
configure_logging(env.str("BERTH_LOG_LEVEL", "INFO"))
