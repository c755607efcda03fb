from django.urls import path, register_converter
from django.urls.converters import PathConverter

from vfolders.webdav.views import DavView


class AnyPathConverter(PathConverter):
    """Converter for a path of any characters, which `parse_address` judges."""

    regex = "(?s:.+)"


register_converter(AnyPathConverter, "dav_path")

urlpatterns = [
    path("", DavView.as_view(), name="webdav-root"),
    path("<dav_path:place>", DavView.as_view(), name="webdav"),
]
