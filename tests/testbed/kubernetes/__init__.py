"""A real Kubernetes API for tests and demo: etcd, kube-apiserver and kube-controller-manager, without nodes.

`testbed.kubernetes.control_plane.ControlPlane` is the way in.
"""
