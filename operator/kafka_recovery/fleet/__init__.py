"""Many clusters at once: their evidence as files."""
