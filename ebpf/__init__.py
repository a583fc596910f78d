"""What watches from the kernel: which kinds of eBPF program this host lets us load."""
