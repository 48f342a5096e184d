"""Candidates, features and the learnt ranker that orders them."""
