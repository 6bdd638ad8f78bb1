"""Pure functions from evidence and policy to a plan. No IO, no clock, no randomness."""
