"""How a task reaches the shards and the results come back."""
