"""Who acts, and as whom: the Lease, the login, and patience for kopf, which stays in this room with `kubernetes`."""
