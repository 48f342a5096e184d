"""A blind user study of suggestions (the paper's section 4.7).

topics + models --create--> STUDY folder --serve--> judgements --report--> who is better
"""
