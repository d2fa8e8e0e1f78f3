"""What commands answer about problems of each family: one module per family, one function per command."""
