"""What is remembered of a user: the two documents and their tool, the channel's drain, and recall."""
