//! Control groups as systemd's slices.
