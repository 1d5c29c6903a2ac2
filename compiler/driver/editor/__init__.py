"""What an editor asks of a text: what is wrong with it, what a name means, where it is defined, what may stand here.

Each file answers one kind of question with functions from a `Text` to plain data; the protocol is spoken by
`driver/integrations/language_server.py`.
"""
