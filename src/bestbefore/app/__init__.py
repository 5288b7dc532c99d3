"""Settings, wiring and checks: the only place that knows vendor names."""
