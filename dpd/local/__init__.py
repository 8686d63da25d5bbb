"""The embedded back-end: prefill and decode workers and the router as processes on this machine."""
