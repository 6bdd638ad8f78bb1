"""What the exit code of every command says."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """For scripts: 0 needs nobody, 1 to 6 say who has to do something, 129 and above that a signal ended the run."""

    DONE = 0
    """Everything asked for was done; of a recovery: every partition has a leader that answers."""
    NOT_RECOVERED = 1
    """Some partition was not (`plan --exit-code`: would not be) recovered, or its order is not restored yet."""
    NOT_GOOD_ENOUGH = 1
    """Of a rehearsal: the policy exceeds a limit that was asked for, or the engine broke one of its promises."""
    BAD_INPUT = 2
    """Bad input, such as a wrong cluster id, or a file, partition or journal that is not there. Nothing was changed."""
    UNAVAILABLE = 3
    """Cluster, storage or API server gives no answer that can be used. This may pass: try again."""
    APPROVAL = 4
    """A person has to say yes first."""
    JOURNAL = 5
    """The journal is locked by another run, can't be written, or holds a damaged run. Nothing more was changed."""
    NOT_LET_IN = 6
    """Login or TLS fails, a right is missing, or an admission policy refuses. A person has to mend that first."""
    BUG = 70
    """An error nobody expected; its traceback is on stderr (sysexits.h: EX_SOFTWARE)."""
    HANGUP = 129
    INTERRUPTED = 130
    TERMINATED = 143
    """Stopped by SIGHUP, SIGINT or SIGTERM, once the waves under way had ended. What was begun can be resumed."""
