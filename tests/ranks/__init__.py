"""What tests on several ranks share: the collectives by definition, and worlds of threads to run bodies "
"in."""
