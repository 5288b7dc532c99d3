"""Pure values and rules; standard library only."""
