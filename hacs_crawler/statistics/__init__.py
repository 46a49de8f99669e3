"""Statistics on arrays: calibration, sequential tests, twin crawls. No I/O, no clock."""
