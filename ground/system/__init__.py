"""The host as ioflame uses it: processes, CPUs, block devices, files that are whole or not there."""
