"""The access log for those who may read it: which lines, in which words, and where what they speak of is."""
