"""What an editor asks of a text: what is wrong with it, what a name means, where it is defined, what may stand here.

Each file answers one kind of question with functions from a `Text` to plain data: `diagnostics` what is wrong, `hover`
what a name is, `hints` what is written between the words, `places` where a name is defined and how it is renamed,
`completion` what may stand here, `actions` what may be done. `text` is a text with all that is known of it, `names`
finds every name in one, `desk` holds the texts that are open, `positions` counts as editors count.

To add a hint, yield one in `hints._of`; to add a code action, an `Action` in `actions.actions`, and where it shows
something a command of the server. `driver/integrations/language_server.py` speaks the protocol.
"""
