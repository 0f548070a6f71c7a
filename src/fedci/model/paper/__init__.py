"""The paper's model: Θ, means, Wishart laws, its posterior and its objective."""
