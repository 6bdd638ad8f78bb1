"""The journal in the cluster: facts in ConfigMaps, the finalizer that protects them, and journals without an owner."""
