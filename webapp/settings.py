"""Environment in, Django settings out; fails loudly on a value it cannot use."""

import secrets
import socket
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from webapp.environment import embedded_database_url, embedded_redis_url, read_environment

ENV = read_environment()
BASE_DIR = Path(__file__).resolve().parent.parent
DATA = ENV["DATA"]
RUNS_DIR = Path(ENV["RUNS_DIR"]).resolve() if ENV["RUNS_DIR"] else DATA / "runs"
NODE_NAME = ENV["NODE_NAME"] or socket.gethostname()
LEASE_SECONDS = ENV["LEASE_SECONDS"]
LAUNCHER = ENV["LAUNCHER"]
SLURM_SLOTS = ENV["SLURM_SLOTS"]
SLURM_OPTIONS = ENV["SLURM_OPTIONS"]

DATABASE_URL = ENV["DATABASE_URL"] or embedded_database_url(DATA)
REDIS_URL = ENV["REDIS_URL"] or embedded_redis_url(DATA)
# Celery's transport has its own word for a Unix socket.
BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)


def _secret_key() -> str:
    """Take the given key, or make one on first use and keep it where only this user can read it."""
    if ENV["SECRET_KEY"]:
        return ENV["SECRET_KEY"]
    file = DATA / "secret_key"
    if not file.exists():
        DATA.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.write_text(secrets.token_urlsafe(50))
    return file.read_text()


def _database(url: str) -> dict:
    parts = conninfo_to_dict(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.pop("dbname", "zayaboard"),
        "USER": parts.pop("user", ""),
        "PASSWORD": parts.pop("password", ""),
        "HOST": parts.pop("host", ""),
        "PORT": parts.pop("port", ""),
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {**parts, "connect_timeout": 5, "pool": {"min_size": 0, "max_size": 16, "timeout": 10}},
    }


SECRET_KEY = _secret_key()
DEBUG = ENV["DEBUG"]
ALLOWED_HOSTS = ENV["ALLOWED_HOSTS"]
CSRF_TRUSTED_ORIGINS = ENV["CSRF_TRUSTED_ORIGINS"]
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = ENV["HTTPS"]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if ENV["HTTPS"] else None
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "ninja",
    "webapp.accounts",
    "webapp.fleet",
    "webapp.runs",
    "webapp.metrics",
    "webapp.checkpoints",
    "webapp.preferences",
    "webapp.pages",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "webapp.pages.access.LoginFirst",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "webapp.pages.access.ContentPolicy",
]
ROOT_URLCONF = "webapp.urls"
ASGI_APPLICATION = "webapp.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "webapp" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {"default": _database(DATABASE_URL)}
if ENV["DATABASE_REPLICA_URL"]:
    DATABASES["replica"] = {**_database(ENV["DATABASE_REPLICA_URL"]), "TEST": {"MIRROR": "default"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"

STATIC_URL = "/static/"
STATIC_ROOT = DATA / "static"
STATICFILES_DIRS = [BASE_DIR / "webapp" / "static"]

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": ENV["LOG_LEVEL"].upper()},
}

UNFOLD = {
    "SITE_TITLE": "Zayaboard",
    "SITE_HEADER": "Zayaboard",
    "SITE_URL": "/",
    "SHOW_VIEW_ON_SITE": False,
}
