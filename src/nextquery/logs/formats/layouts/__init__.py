"""What formats share: where user, time, query and click stand in a row."""
