"""One behaviour suite per port, to run over every adapter."""
