// Package leasestore decides who reads which shard, and remembers how far each shard is settled.
//
// # Life of a lease
//
//	             Acquire (counter 0)
//	(no row) ───────────────────────────▶ ┌───────┐ ◀─┐ Renew, Checkpoint, Move
//	   ▲                                  │ owned │ ──┘ (counter + 1 each)
//	   │                ┌───────────────▶ └───────┘
//	   │                │ Acquire          │  │  │
//	   │            ┌──────┐   Release     │  │  │ Checkpoint SHARD_END
//	   │ Delete     │ free │ ◀─────────────┘  │  ▼
//	   │            └──────┘                  │ ┌──────────┐
//	   │                       the counter    │ │ finished │ (keeps its owner; a seek back
//	   │                       stands still   │ └──────────┘  acquires and moves it)
//	   │                       for ttl        ▼      │
//	   │                             ┌─────────┐     │
//	   │                             │ expired │ ──▶ Acquire by another: owned
//	   │                             └─────────┘     │
//	   └─────────────────────────────────────────────┘
//
// Expired is no state of the row: the row of a dead owner looks like that of a live one, and only who has watched it for long
// enough knows.
//
// # Authority
//
// The [Store] is the only authority. Whoever's conditional write succeeds owns the lease; what a broker believes, what
// other brokers tell it and what any clock shows decide nothing. Two brokers that try at once are told apart by the
// store, so planners that disagree are harmless.
//
// # Fencing
//
// [Lease.Counter] is the fencing token. Every write raises it by one and is conditional on the value its writer last saw:
//
//	write        condition                            effect besides counter + 1
//	Acquire      no row (counter 0), or same counter  owner set
//	Offer        same counter                         next owner named
//	Renew        same counter                         none
//	Checkpoint   same counter, not backwards          checkpoint
//	Move         same counter                         checkpoint (any direction), seek
//	Release      same counter                         owner and next owner cleared
//	Delete       same counter                         row removed
//	SaveState    same version                         state, version + 1
//	Beat         none: only the member writes it      the member's row, beat + 1
//	Forget       same beat, or no row                 member's row removed
//
// So an owner that was paused and lost its lease (a zombie) can write nothing, and needs not know that it is one:
// [ErrFenced] tells it, and it stops reading the shard without another write. It may still be delivering records when it
// wakes up; therefore an owner also trusts its lease only for ttl from before its last successful renewal began.
//
// One writer at a time writes a lease: a renewal and a checkpoint of the same owner carry the same counter, and the second would be
// fenced by the first. A checkpoint is a renewal, too. Tools that move a lease they do not own acquire it first.
//
// A deleted lease begins again at counter 1. Delete only leases of shards that are gone or finished, so that nobody is left who remembers
// a counter of the former life. Should there be someone: all writes of a lease but Acquire also require the owner that their writer last saw.
//
// # Expiry
//
// Expiry is judged by the observer: an owner is dead when its lease's counter has not changed for ttl on the observer's own
// monotonic clock ([Observer]). Wall clocks are never compared. Release spares the next owner the wait.
//
// # Handover
//
// Only an owner gives a lease that is alive away. It names the next owner (Offer), which everyone who plans counts from then on, lets what is
// in flight settle, checkpoints, and makes the next owner the owner (Acquire, with the next owner's id). If it dies on the way, the lease
// expires like any other.
//
// Nodes that own nothing would be unknown to those that could give them something, so every node has a row of its own ([Member]) and keeps it
// changing (Beat). Members decide nothing: a plan made of wrong members costs moves, no records.
//
// # Lost replies
//
// An error that wraps none of this package's is an outage, and the write may have been applied. [Confirm] reads the row
// back: own owner and the next counter mean that it was.
//
// # Stores
//
// [Memory] serves one process; package file one node, across restarts; package dynamodb any number of nodes, and KCL workers beside them. Every
// store passes the suite of package storetest; whoever writes one over a transactional database can use the rules of the writes as they are here
// ([ApplyAcquire] and its like).
package leasestore
