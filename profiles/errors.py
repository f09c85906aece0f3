"""Errors a user can act on; everything else is a bug and keeps its traceback."""


class UserError(Exception):
    """Bad input: one line saying what, where and what to do. The command line exits with 2."""


class PinnedOutError(UserError):
    """No plan keeps all that a job pins."""


class NoPlanFitsError(Exception):
    """No plan fits the cluster: the nearest miss and which byte is missing. Exit code 3."""


class RunFailedError(Exception):
    """A worker failed: names the worker and the cause. Exit code 1."""


class LostWorkersError(RunFailedError):
    """Workers are gone by no error of their own: killed, silent past the timeout, or cut off.

    Args:
        message: names them, and how they went.
        ranks: of them; nothing where nobody can tell.
    """

    def __init__(self, message: str, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.ranks = ranks


class NotFiniteError(RunFailedError):
    """Training came to NaN or infinity: names the epoch, and the worker and operator where it began."""


class StoppedError(KeyboardInterrupt):
    """A signal told this process to end: no fault of anybody's. Exit code 128 and the signal's number.

    Args:
        message: what was ended, and what is left of it.
        number: of the signal.
    """

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number
