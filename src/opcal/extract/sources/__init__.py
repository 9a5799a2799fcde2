"""Where field data come from; every source is read from any position on."""
