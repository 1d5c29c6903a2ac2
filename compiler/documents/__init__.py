"""Papers: their equations read in place, put together to programs, and accounted for one by one."""
