"""Networks of namespaces on this machine, for programs that know nothing of them."""
