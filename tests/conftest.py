"""What all tests share."""

from __future__ import annotations

import signal

# A run that was started in the background ignores SIGINT and hands that on to the programs it starts; some tests end
# those by a Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
