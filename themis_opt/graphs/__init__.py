"""Networks that are any graph: bounds against any algorithm, trees that reach them, and what is lost with a link."""
