"""Kubeflow's Spark operator as a process of this machine, and a stand-in for Apache's."""
