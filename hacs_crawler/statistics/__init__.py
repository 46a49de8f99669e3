"""Statistics on arrays: calibration, sequential tests, clusters. No I/O, no clock."""
