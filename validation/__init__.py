"""Published and measured figures, and the code that holds predictions against them."""
