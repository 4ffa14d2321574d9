"""Policies: what happens around a round, over any transport.

A policy wraps a transport and has its verbs. `base` has what all share. `retry` recomputes what dead workers owed
(`recovery`: one such round; `losses`: what happened; `assignment`: who takes a shard; `speculate`: backup tasks for
slow workers; `exchange`: how a policy talks with workers while a round runs; `elastic`: workers come and go).
`rebalance` moves shards to whoever would be done earlier (`speeds`: who that is).
"""
