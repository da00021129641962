"""Tools: what runs may call, checked at execution, confined to the user's workspace and to the public web."""
