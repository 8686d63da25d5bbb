"""The data plane of the self-managed and local back-ends: decides, hands over, never loses a request."""
