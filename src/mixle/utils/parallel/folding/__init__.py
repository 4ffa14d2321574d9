"""The loop: shard maps, tasks, the ordered fold, rounds and handles."""
