"""``python -m ghrr`` is the command ``ghrr``."""

from ghrr.cli import main

main()
