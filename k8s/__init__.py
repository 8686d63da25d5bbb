"""Kubernetes manifests of one deployment, as plain objects and as cdk8s charts."""
