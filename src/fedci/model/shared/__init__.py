"""The model `shared`: a random function of all sites, one of each site's own; θ, basis, evidence, large sites."""
