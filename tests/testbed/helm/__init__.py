"""Helm and what checks charts, really: helm, helm-unittest, kubeconform."""
