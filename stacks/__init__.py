"""CDK stacks: they wire constructs and hold no arithmetic."""
