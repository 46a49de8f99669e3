"""What `hacs doctor` looks at."""
