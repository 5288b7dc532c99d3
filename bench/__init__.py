"""Speed, side by side with named peers on the same store in one run, as ratios."""
