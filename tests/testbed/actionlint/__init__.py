"""actionlint, which reads GitHub's workflows as GitHub does, and asks nobody."""
