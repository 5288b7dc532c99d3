"""Files in folders of a local or mounted disk: one lister and one deleter."""

from bestbefore.adapters.objects.directory.deleting import DirectoryDeleter
from bestbefore.adapters.objects.directory.listing import DirectoryLister
from bestbefore.adapters.objects.directory.storing import DirectoryFiles

__all__ = ["DirectoryDeleter", "DirectoryFiles", "DirectoryLister"]
