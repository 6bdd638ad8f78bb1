"""The operator: custom resources in, recoveries out. kopf watches; our own queue reconciles."""
