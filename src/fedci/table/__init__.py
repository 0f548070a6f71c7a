"""A site's rows as they come: columns, databases, checks, moments; and a study proposed from them."""
