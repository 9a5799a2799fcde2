"""What people and programs reach by HTTP: the labelling page and, in `serving`, calibrated confidence as a service."""
