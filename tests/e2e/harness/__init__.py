"""What the end-to-end tests are made of: the gateway, a Redis, a raw upstream, a raw client.

Every process gets a port from the kernel or a unix socket in a temporary folder, and every wait polls with a deadline."""
