"""`python -m service` is the command `coldspark`."""

from service.cli import main

main()
