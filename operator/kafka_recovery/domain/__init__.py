"""The words of the project: evidence, policy, plan, outcome. Frozen values, no IO."""
