"""What users call: checks nothing and moves nothing itself, but says what each operation does."""
