"""Files in folders of a local or mounted disk: one lister and one deleter."""

from bestbefore.adapters.objects.directory.deleting import DirectoryDeleter
from bestbefore.adapters.objects.directory.listing import DirectoryLister

__all__ = ["DirectoryDeleter", "DirectoryLister"]
