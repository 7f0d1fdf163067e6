"""Python as other systems have it: what Windows or macOS lack is taken away, for a process of its own."""

WINDOWS = """
import fcntl as _fcntl, os, signal, subprocess, sys, types  # subprocess would take msvcrt for a whole Windows
_flock, _open = _fcntl.lockf, os.open

def locking(handle, mode, size):
    where = os.lseek(handle, 0, os.SEEK_CUR)
    how = _fcntl.LOCK_UN if mode == msvcrt.LK_UNLCK else _fcntl.LOCK_EX | _fcntl.LOCK_NB
    _flock(handle, how, size, where)

def open_files_only(path, flags, *arguments, **options):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return _open(path, flags, *arguments, **options)

msvcrt = types.ModuleType("msvcrt")
msvcrt.LK_UNLCK, msvcrt.LK_LOCK, msvcrt.LK_NBLCK, msvcrt.locking = 0, 1, 2, locking
sys.modules["msvcrt"] = msvcrt
for name in ("fcntl", "pwd", "grp", "resource", "termios"):
    sys.modules[name] = None
for name in ("fork", "register_at_fork", "killpg", "getpgid", "setsid", "geteuid", "getuid", "pread", "pwrite",
             "fchmod", "sched_getaffinity", "O_DIRECTORY", "O_NOFOLLOW"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGALRM", "alarm", "pthread_sigmask"):
    delattr(signal, name)
os.open = open_files_only
"""
"""Also `msvcrt`, which Linux lacks: byte locks of processes. `os.name` stays, as pathlib believes it."""

FORKING = ["-W", "ignore:This process:DeprecationWarning"]
"""Flags of a Python that forks although it has threads, of which Python 3.12 and newer warn."""
