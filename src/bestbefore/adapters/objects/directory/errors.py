"""What the system's errors mean, in the product's words: one table by errno."""

import errno
from collections.abc import Mapping

from bestbefore.adapters.objects.directory.keys import readable
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.objects import StoreError

CLASSES: Mapping[int, FailureClass] = {
    errno.EACCES: FailureClass.PERMISSION,
    errno.EPERM: FailureClass.PERMISSION,
    errno.EROFS: FailureClass.PERMISSION,
    # Somebody has it mounted, executes it or, over SMB, has it open.
    errno.EBUSY: FailureClass.TRANSIENT,
    errno.ETXTBSY: FailureClass.TRANSIENT,
    # NFS: what a cache knew is gone on the server. Looked up again, it is found or absent.
    errno.ESTALE: FailureClass.TRANSIENT,
    # A disk, a server or a FUSE process in trouble: it comes back, or the breaker opens.
    errno.EIO: FailureClass.TRANSIENT,
    errno.ENXIO: FailureClass.TRANSIENT,
    errno.ENODEV: FailureClass.TRANSIENT,
    errno.ENOTCONN: FailureClass.TRANSIENT,
    errno.ECONNABORTED: FailureClass.TRANSIENT,
    errno.ECONNREFUSED: FailureClass.TRANSIENT,
    errno.ECONNRESET: FailureClass.TRANSIENT,
    errno.EHOSTDOWN: FailureClass.TRANSIENT,
    errno.EHOSTUNREACH: FailureClass.TRANSIENT,
    errno.ENETDOWN: FailureClass.TRANSIENT,
    errno.ENETUNREACH: FailureClass.TRANSIENT,
    errno.ETIMEDOUT: FailureClass.TRANSIENT,
    # Copy-on-write file systems need room to delete.
    errno.ENOSPC: FailureClass.TRANSIENT,
    errno.EDQUOT: FailureClass.TRANSIENT,
    errno.EAGAIN: FailureClass.TRANSIENT,
    errno.ENOLCK: FailureClass.TRANSIENT,
    errno.ENOMEM: FailureClass.TRANSIENT,
    errno.EMFILE: FailureClass.TRANSIENT,
    errno.ENFILE: FailureClass.TRANSIENT,
}
"""What each error means for one attempt. One that is not here is unknown."""

NOTHING_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
"""There is no file and no folder of this name: none at all, only a link, or there cannot be."""

READING = "this user needs the rights to read and to search the folder"
DELETING = "this user needs the rights to write to and to search the folder"

_REMEDIES: Mapping[int, str] = {
    errno.EPERM: "look for a sticky bit on the folder (ls -ld) and for attributes (lsattr)",
    errno.EROFS: "this part of the disk is mounted read-only: remount it, or narrow the policy",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}


def failure(error: OSError, path: str, rights: str) -> Failure:
    """*error*, met at *path*, as a result; *rights* is what takes where it was denied."""
    number = error.errno or 0
    remedy = rights if number == errno.EACCES else _REMEDIES.get(number, "")
    said = f"{readable(path)}: {error.strerror} ({errno.errorcode.get(number, number)})"
    return Failure(
        CLASSES.get(number, FailureClass.UNKNOWN), f"{said}; {remedy}" if remedy else said
    )


def refused(path: str, what: str) -> StoreError:
    """The whole source cannot be worked on, because of *what* about *path*."""
    return StoreError(
        Failure(FailureClass.MALFORMED, f"{readable(path)}: {what}", whole_source=True)
    )
