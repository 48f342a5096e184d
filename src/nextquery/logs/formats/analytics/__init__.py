"""Exports of analytics services: what visitors did, from which searches are taken."""
