"""What systems suggest by themselves: quality of lists, samples, time."""
