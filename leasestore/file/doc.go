// Package file keeps leases in one file of a node, so that checkpoints survive a restart. The file is a bbolt
// database.
//
// # One process
//
// Open takes the file's lock and keeps it until Close; a second Open, of this process or another, fails with [ErrLocked]. All
// brokers of the process may share the Store. Holding the lock proves that no other process holds a lease, so Open frees every lease
// in the file (the owner is cleared, the counter raised): after a crash the next process goes on at once and does not wait
// for the leases to expire.
//
// # Durability
//
// A write that returned without error is on disk (fsync) and survives kill -9 and power loss. Writes that meet are committed
// together, so a thousand at once need a few fsyncs.
//
// A write that fails because the disk is full or broken changes nothing that was stored before, and the store stays
// usable; like every outage its own outcome is unknown.
//
// # Format
//
// Version 1 has three buckets:
//
//	meta     "format" -> "1"
//	leases   a bucket per stream, named name@created: shard id -> JSON object
//	         {"owner", "next", "counter", "checkpoint", "seek", "parents"}; empty fields are left out
//	streams  name@created -> JSON object {"version", "seek", "start", "tip"}
//
// Members are in memory only.
//
// Checkpoints are written as leasestore.Checkpoint.String does. Fields that this version does not know are ignored, and
// lost when the row is next written; what it can not read at all is [ErrCorrupt], never a guess.
package file
