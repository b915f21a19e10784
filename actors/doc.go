// Package actors has the actors of the library: broker, coordinator, reader, publisher, and the handler that runs Go functions.
//
// # Who supervises whom
//
//	broker          resumes after a panic: its children know nothing of it
//	├─ coordinator  one per subscription; restarted after a pause (100 ms … 10 s) by the broker's strategy
//	│  └─ reader    one per shard; stopped by a panic, the coordinator starts another
//	└─ publisher    one per stream and options; restarted likewise, whoever waited is told that the outcome is unknown
//	handler         a subscriber that runs a Go function; resumes
//
// # Where to find what
//
//	config.go               what a broker is told, defaults
//	errors.go classify.go   the table of failures; what kind of failure an error of the service is
//	validate.go envelope.go bad input, and the header envelope (pure)
//	kinesis.go stream.go    the narrow interface to the SDK, its clients; calls of the control plane
//	internal/wire           how pages and PutRecords travel, in JSON or CBOR
//	credentials.go          credentials that the service refuses are fetched anew
//	broker*.go              connect, subscribe, membership, cluster, shut down
//	coordinator*.go         open, scan and reconcile, share, readers, subscriber, start, seek, audit, retire, recreated, close
//	assign.go roster.go     which shards this node takes and gives; which nodes are alive (pure)
//	hint.go                 what nodes tell each other
//	topology.go             is this node still in its Proto.Actor cluster (pure)
//	application*.go         how all nodes are
//	lineage.go              which shards may start, and where (pure)
//	audit.go retire.go      what a listing lacks; which leases nobody needs any more (pure)
//	life.go                 is a listing still of the same stream (pure)
//	reader*.go              lease and handover, open, fetch, pause, failures, unpack, deliver and redeliver, end, move
//	page.go arena.go        pages as deliveries, aggregated records opened; the memory that pages keep (pure)
//	envelope_block.go       memory for the messages of deliveries
//	fanout.go               enhanced fan-out
//	window*.go pacer.go     what is read and not settled, the watermark, what may have been lost; the pace of reads (pure)
//	budget.go turnstile.go  what all readers hold together; how many of them are at once at the service, and at the store
//	broker_publish.go       which publisher a record goes to
//	publisher*.go           publish: take in, requests, their outcome (pure), the shard map
//	outbox*.go lane.go      what waits: order per key, a lane for each shard, the slow ones apart (pure)
//	pace.go aggregate.go    how fast a throttled shard is written to; filling aggregated records (pure)
//	shard_map.go            which shard a record goes to (pure)
//	outlet.go ticket.go     publishing from Go code
//	quota.go                what all publishers of a stream, and of the broker, hold
//	record_fields.go publish_options.go
//	handler*.go ask.go      Go functions as subscribers; asking actors from Go code
//	effects.go timer.go     calls off the mailbox; timers fenced by number
//	pool.go                 the goroutines that actors and effects run on
//	supervise.go tombstone.go status.go dead_letter.go
//
// # Non-obvious
//
// These hold everywhere, and each was once a fault here or elsewhere:
//
//   - Terminated is a system message and overtakes the last words of the actor it is about, which are ordinary ones. Nothing is decided on
//     Terminated alone: see childGone.
//   - Only the node that holds a lease gives it away, and the store alone says who holds it. Plans, members, hints and what a reader has told its
//     coordinator save time and moves; when they are wrong, a conditional write fails.
//   - A lease seen in a scan may be older than what a reader of ours has written since. decide counts shards with a reader as
//     leased, whatever the scan says.
//   - An actor that was stopped by force swallows what is in its mailbox. The mailbox answers for it (tombstone.go).
//   - Effects and timers carry the number of their incarnation: a reader's successor has the same PID.
//   - The tip is an instant. LATEST is asked for at most once per shard, and the instant is in the lease before that.
//   - One writer per lease at a time. A checkpoint is a renewal as well, as both raise the counter.
//   - A delivery that may have been lost is sent again while it stays in flight, so that any settlement of it counts. What the subscriber has not
//     answered is no attempt of its.
//   - Terminated of an actor on another node may only mean that the way there is gone: the actor may live, and is told.
//   - A record's room is made before it is sent to its publisher, or by it, and given back by whoever settles it: the publisher once it has taken it in
//     (Ticket.taken), else whoever refuses it.
//   - A key is on its way in one request at most (strict order). What comes back goes before what has not been sent, and what is given up while a
//     try of it may still arrive says so.
//   - The shard map is a guess. What decides is the shard that the service names for each stored record.
//   - Delivery ids begin anew with each generation; what must not be confused across generations (dead letters) has numbers of its own.
package actors
