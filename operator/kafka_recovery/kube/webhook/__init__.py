"""Alertmanager's webhook: an alert wakes the watcher of the cluster that it names, and tells it nothing."""
