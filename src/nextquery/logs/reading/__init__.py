"""Bytes of a raw log become rows: compression, lines, times, rejected rows."""
