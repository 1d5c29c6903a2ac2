"""A page on this machine to try texts on: what is wrong with one, what it means, what is derived and written from it.

`answers` is what it does, in a `worker` process for each request; `server` is the door, `page` what stands behind it.
"""
