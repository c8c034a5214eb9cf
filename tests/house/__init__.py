"""The rules of the house, and what they are tried on; tests/test_layout.py applies them."""
