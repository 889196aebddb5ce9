"""Abstract reasoning."""
from ghrr.reasoning.rules import Rule
