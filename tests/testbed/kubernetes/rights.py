"""Who may do what, as objects: what `kubectl create role` makes is a process each."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.kubernetes.objects import Api, Object
from testbed.waiting import wait_until

GROUP = "rbac.authorization.k8s.io"


def role(name: str, verbs: Sequence[str], kind: str) -> Object:
    """A Role of a namespace: these verbs on all objects of one kind, PLURAL.GROUP."""
    plural, _, group = kind.partition(".")
    rule = {"apiGroups": [group], "resources": [plural], "verbs": list(verbs)}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": {"name": name}, "rules": [rule]}


def bound(user: str, to: str, *, own: bool = False, name: str = "") -> Object:
    """A user has a ClusterRole in a namespace, or a Role of its `own`; a service account is a user by its full name."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name or f"{user}-{to}"},
        "roleRef": {"apiGroup": GROUP, "kind": "Role" if own else "ClusterRole", "name": to},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
    }


def hold(who: Api, *rights: tuple[str, str]) -> None:
    """Wait until this user may do all of this, each a verb and what: the API server learns of roles a moment later."""
    wait_until("the rights hold", lambda: all(who.may(verb, what) for verb, what in rights), bool)
