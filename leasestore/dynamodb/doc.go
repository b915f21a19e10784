// Package dynamodb keeps leases in a DynamoDB table, for brokers on any number of nodes. The table is that of the Kinesis Client Library
// (KCL) 3.5, so that Go nodes and KCL workers of one application read a stream side by side, and either can take over from the other.
//
//	client := sdk.NewFromConfig(cfg) // github.com/aws/aws-sdk-go-v2/service/dynamodb
//	store, err := dynamodb.New(client, "orders-application")
//
// The table is named like the KCL application. It is created if it is missing, with billing per request and KCL's index of owners.
//
// # Rows
//
// KCL keeps several kinds of rows in the table, told apart by entityType; leases may have none. Only leases and this package's own rows are
// written, and of those only the attributes named here: whatever else there is stays as it is. Keys are described in keys.go. A row that can not
// be understood is logged and left out; it never hides the others.
//
//	lease        leaseKey, leaseOwner, checkpointOwner, leaseCounter, checkpoint, checkpointSubSequenceNumber, ownerSwitchesSinceCheckpoint;
//	             pendingCheckpoint… are removed by a checkpoint; parentShardId, streamName, shardId and entityType are written when it is created;
//	             protokinesisStream, -Checkpoint, -Seek, -Written
//	stream       entityType STREAM, streamId; protokinesisStream, -Version, -Seek, -Start, -Tip
//	member       entityType WORKER_METRIC_STATS, lut; protokinesisBeat, -Leaving, -Streams, -Address, -Broker, -System
//	Leader       read only: while a KCL leader lives, View.Planner names it
//
// Lease.Counter is leaseCounter + 1. A lease that was offered ([Store.Offer]) has the next owner in leaseOwner and the present one in
// checkpointOwner, as in KCL's graceful handoff; a handoff that a KCL leader starts is read as an offer.
//
// # What a KCL worker sees
//
// Leases like its own. It takes over at the sequence number that was checkpointed, and within an aggregated record at the sub-sequence number. What KCL
// has no word for is written so that it repeats records rather than losing any (checkpoint.go): after a seek to a record it begins at TRIM_HORIZON. A
// lease whose checkpoint is an instant, such as that of a shard opened at the tip, is AT_TIMESTAMP to it, which means the instant that the KCL
// application is configured with.
//
// Nodes look like workers without metrics: the leader of a fleet gives them leases by throughput. A node that is leaving looks like one that has been
// silent. KCL's words LATEST and AT_TIMESTAMP alone are no checkpoint to this package: the subscription's start decides.
//
// KCL before 3.5, and 3.5 until it has migrated its tables to one, takes every row for a lease: give it no node of this library, or
// migrate first. For the same reason no [Application] may share a table with KCL workers.
//
// # Cost
//
// A renewal, a checkpoint and a member's beat are one write unit each; a change of owner is up to three, because of the index. A look at the table is one
// paged scan per node, whatever the number of streams and subscriptions; see Store.look. Reads of single rows happen only after failures.
//
// # Permissions
//
// dynamodb:DescribeTable, Scan, GetItem, UpdateItem and DeleteItem on the table, and CreateTable if it may have to be created. DescribeTable may be
// refused.
//
// # Failures
//
// Throttling, time-outs and a table that is gone are outages: their errors wrap the SDK's and none of package leasestore's. A table that is gone is created
// again by the next call. The SDK tries again by itself; when a try was applied without a reply, the next is refused and ErrFenced is what
// the caller gets. leasestore.Confirm tells that from a lost lease.
package dynamodb
