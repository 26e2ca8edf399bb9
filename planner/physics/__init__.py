"""Time of single operations: plain functions named after the thing, arrays in and out, SI units."""
