"""Times that a question names, in every language: `dates` reads them."""
