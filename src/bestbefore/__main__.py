"""`python -m bestbefore`."""

from bestbefore.cli import main

main()
