"""Charts, each from a Result, as plain Plotly specifications."""
