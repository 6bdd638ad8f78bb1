"""The project's custom resources: their kinds, their checked fields, and reading them fresh from the API."""
