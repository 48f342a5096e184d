"""How count models hold and store what they counted: followers, suffix trees, files."""
