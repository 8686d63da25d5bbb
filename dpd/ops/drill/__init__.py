"""Break a running system on purpose, and judge what every client got."""
