"""The algorithms. `registry.py` lists them; `literal.py` has SQIRL and GORP as the paper writes them."""
