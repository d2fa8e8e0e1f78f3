"""Mathematical models, in integers and floats alone."""
