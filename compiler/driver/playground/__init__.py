"""A page on this machine to try texts on: what is wrong with one, what it means, what is derived and written from it.

`page.html`, `page.css` and `page.js` are the page, `server` says who may ask and answers, `workers` keeps the processes
in which a `worker` answers one request each. What is answered is in `answers`, by `mask` and `plans` for these panes,
and `offers` for what may stand at the cursor.
"""
