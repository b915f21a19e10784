// Package failover checks and measures the log of nodes that share a stream while some are killed, stopped, cut off, told to leave or added.
//
// It is pure and knows nothing of the library: it is given what was published, and a log of what the nodes printed and wrote to the lease table, in the
// order in which it happened. [Check] says which rules do not hold, and the figures are methods of [Log]. The nodes themselves are run by TestFailover of the
// directory above.
//
// # Figures
//
// go test ./test -run Failover -v; medians of 5 in one run on two cores, November 2026, go 1.26.8, with dynalite 4.0.0, ttl 10 s; 12 shards on
// kinesis-local 0.6.2, 64 on kinesalite but for the last case:
//
//	case                                  shards  figure                   must      median  from … to
//	SIGSTOP of one of 3 nodes for 30 s        12  every shard read again   ≤ 13.0 s  12.3 s  10.7 s … 13.0 s
//	                                              printed by the zombie    ≤ 0       0       0 … 0
//	                                              written by the zombie    ≤ 0       0       0 … 0
//	                                              records that came twice  ≤ 11      7       0 … 18, as many as were in no checkpoint
//	20 s without the store                    12  every shard read again             1.7 s   1.1 s … 3.0 s after it
//	kill -9 of one of 3 nodes                 12  every shard read again   ≤ 13.0 s  11.9 s  10.8 s … 12.4 s
//	                                              records that came twice  ≤ 15      15      2 … 17, as many as were in no checkpoint
//	SIGTERM of one of 3 nodes, hints          12  every shard read again   ≤ 2.0 s   0.6 s   0.3 s … 3.4 s
//	                                              records that came twice  ≤ 0       0       0 … 0
//	SIGTERM of one of 3 nodes                 12  every shard read again   ≤ 5.0 s   1.7 s   1.1 s … 2.4 s
//	                                              records that came twice  ≤ 0       0       0 … 0
//	3 to 4 nodes, hints                       64  spread at most 1         ≤ 5.0 s   1.8 s   1.6 s … 3.1 s
//	                                              moves                    ≤ 16      16      16 … 16
//	                                              a shard unread           ≤ 2.0 s   1.2 s   1.2 s … 3.2 s
//	                                              records that came twice  ≤ 0       0       0 … 0
//	3 to 4 nodes                              64  spread at most 1         ≤ 15.0 s  3.9 s   3.7 s … 4.1 s
//	                                              moves                    ≤ 16      16      16 … 16
//	                                              a shard unread           ≤ 2.0 s   1.4 s   1.2 s … 1.5 s
//	                                              records that came twice  ≤ 0       0       0 … 0
//	cold start of 5 nodes                     64  spread at most 1         ≤ 15.0 s  3.7 s   3.7 s … 4.1 s
//	                                              leases taken             ≤ 69      64      64 … 64
//	                                              records that came twice  ≤ 0       0       0 … 0
//	3 to 4 nodes, hints, kinesis-local        64  spread at most 1         ≤ 5.0 s   3.2 s   2.5 s … 3.6 s
//	                                              moves                    ≤ 16      16      16 … 16
//	                                              a shard unread           ≤ 2.0 s   1.8 s   1.6 s … 5.6 s
//	                                              records that came twice  ≤ 0       0       0 … 0
//
// For how long a shard is unread is measured between lines that a node has printed. kinesis-local takes 10 to 24 ms of a processor for a call, so that the
// polls of 64 shards use it up, and calls wait for each other; kinesalite takes one or two. In virtual time it is less than 0.5 s with hints
// (TestHintsMakeHandoversQuick of package actors).
package failover
