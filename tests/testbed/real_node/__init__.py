"""A real node for the tests' control plane: containerd and kubelet in a machine of their own, made of namespaces.

`testbed.real_node.node.RealNode` is the way in.
"""
