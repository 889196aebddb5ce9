"""``python -m ghrr.cli``."""

from ghrr.cli import main

main()
