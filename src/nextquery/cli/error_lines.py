"""A message as the terminal is shown it: one line of bounded length, whatever it quotes.

Options and files are quoted in messages as they were given; what they hold must not draw further
lines, move the cursor or fill the screen.
"""

MOST_CHARACTERS = 1500
_END = 300


def one_line(message: str) -> str:
    r"""The message without line ends and control characters, its middle left out if it is long.

    >>> one_line("no\nsuch \x1b[31mkind")
    'no such \\x1b[31mkind'
    """
    text = "".join(map(_shown, message.strip()))
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[: MOST_CHARACTERS - _END]} [...] {text[-_END:]}"


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    if character in "\n\r\t\v\f\x85\u2028\u2029":
        return " "
    if "\udc80" <= character <= "\udcff":
        return character  # a byte of a name that is no text, printed as that byte
    return ascii(character)[1:-1]
