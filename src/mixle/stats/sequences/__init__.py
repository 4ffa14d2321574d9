"""Laws of sequences whose elements depend on those before them."""
