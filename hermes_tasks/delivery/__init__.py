"""Delivery: what is owed to a user outside a conversation, handed over."""
