"""What must never be suggested. No torch here."""
