"""Start requests that wait: to be ranked, and then to be sent."""
