"""A chat-completions server that answers from a script: the model used without a key, and the double of our tests."""
