"""Raw logs, from bytes to accepted and rejected rows: `formats` is the way in."""
