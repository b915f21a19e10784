// Package failover checks and measures the log of nodes that share a stream while some are killed, stopped, cut off, told to leave or added.
//
// It is pure and knows nothing of the library: it is given what was published, and a log of what the nodes printed and wrote to the lease table, in the
// order in which it happened. [Check] says which rules do not hold, and the figures are methods of [Log]. The nodes themselves are run by TestFailover of the
// directory above.
package failover
