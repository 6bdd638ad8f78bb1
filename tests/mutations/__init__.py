"""Small defects of the product, one at a time, and the tests that must notice each: `python -m mutations`."""
