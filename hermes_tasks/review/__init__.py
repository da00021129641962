"""Background review: a look back at a committed turn, for what is worth remembering. Never visible to the user."""
