"""Typed configuration and the frozen Deployment object that every back-end renders."""
