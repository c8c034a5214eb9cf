"""How one worker sends calls, serves those of others, starts and ends."""
