"""CDK constructs of the product, one concept a file; the stacks only wire them."""
