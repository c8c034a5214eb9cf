"""What index signatures cannot tell: ops whose layouts follow other rules."""
