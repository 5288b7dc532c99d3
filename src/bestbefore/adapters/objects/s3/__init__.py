"""S3 and what speaks its language: a lister, a deleter and a copier, for objects and versions."""

from bestbefore.adapters.objects.s3.client import Connection, S3Settings, connect
from bestbefore.adapters.objects.s3.copying import S3Copier
from bestbefore.adapters.objects.s3.deleting import S3Deleter
from bestbefore.adapters.objects.s3.files import S3Files
from bestbefore.adapters.objects.s3.listing import S3Lister

__all__ = [
    "Connection",
    "S3Copier",
    "S3Deleter",
    "S3Files",
    "S3Lister",
    "S3Settings",
    "connect",
]
