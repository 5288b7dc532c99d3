"""HTTP: the API and the dashboard, closed by default."""
