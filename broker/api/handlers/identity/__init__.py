"""Who a client is: how it says so, and what is kept of users."""
