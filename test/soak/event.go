package soak

import "strings"

// What says what an Event is about.
type What string

// The events. Each is logged before what it allows: a delivery before the handler goes on, "done" before the handler returns, a
// lease write before the library is told of it. Writes of one shard's lease are logged in the order in which they were applied. All nodes write one log,
// so an event of one that another can know of comes before what that one does about it.
const (
	Started What = "started" // Node's process
	Ended   What = "ended"   // it has, as it was told to
	Killed  What = "killed"
	Crashed What = "crashed" // it has ended by itself

	Stopped   What = "stopped" // Node's process stands still from now on
	Continued What = "continued"

	Up   What = "up"   // Node has subscribed
	Down What = "down" // its Shutdown has returned, after Millis, with the error Text

	// Fetched: a page with the records Sequence to Last of Shard has come to Node. The request was sent when the log had Begun lines, or
	// later.
	Fetched   What = "fetched"
	Delivered What = "delivered" // Node's handler was called with a record
	Done      What = "done"      // it is about to succeed
	Failed    What = "failed"    // it is about to fail

	// Writes of a lease that were applied by Node (but for the first), with the lease as it is then: Owner, Shard, Counter, Checkpoint, Seek. At is when the write began.

	Opened     What = "opened"  // the store, by nobody else: it has taken all leases from their owners
	Acquire    What = "acquire" // by the owner to be
	Give       What = "give"    // by the owner: another is the owner now
	Offer      What = "offer"
	Renew      What = "renew"
	Checkpoint What = "checkpoint"
	Move       What = "move"
	Release    What = "release"
	Delete     What = "delete"

	State  What = "state"  // the stream's position was stored, or first seen: Seek, Checkpoint (its start), Tip
	Seek   What = "seek"   // ID is about to be asked for; with Shard and Sequence it is of one shard
	Sought What = "sought" // it was answered, with the error Text
	Bound  What = "bound"  // the seek ID to the tip was answered by Millis, on the service's clock

	Partition What = "partition" // the store of Node fails from now on
	Heal      What = "heal"      // it works again
	Calm      What = "calm"      // nothing is disturbed from here on

	Heap What = "heap" // the most Bytes in use so far
	Leak What = "leak" // Text are goroutines left at the end
	Note What = "note" // Text is for whoever reads the log
)

// Event is a line of the log.
type Event struct {
	Line    int  `json:"line"` // in the log, from 1
	Process int  `json:"process,omitempty"`
	What    What `json:"what"`

	At int64 `json:"at,omitempty"` // microseconds since the run began

	Node       string `json:"node,omitempty"`
	Owner      string `json:"owner,omitempty"`
	Shard      string `json:"shard,omitempty"`
	Sequence   string `json:"sequence,omitempty"`
	Last       string `json:"last,omitempty"`
	Attempt    int    `json:"attempt,omitempty"`
	Begun      int    `json:"begun,omitempty"`
	Counter    int64  `json:"counter,omitempty"`
	Checkpoint string `json:"checkpoint,omitempty"`
	Seek       int64  `json:"seek,omitempty"`
	Tip        bool   `json:"tip,omitempty"`
	ID         string `json:"id,omitempty"`
	Text       string `json:"text,omitempty"`
	Millis     int64  `json:"millis,omitempty"`
	Bytes      uint64 `json:"bytes,omitempty"`
}

// Record is a record as the service stores it.
type Record struct {
	Shard, Sequence, Key string
	Arrival              int64 // Unix milliseconds
}

// NodeOf is the node that holds leases under an owner id: its name, a dash, and what makes the id unique.
func NodeOf(owner string) string {
	node, _, _ := strings.Cut(owner, "-")
	return node
}

// Shard is a shard as the service lists it.
type Shard struct {
	ID      string
	Parents []string
	Closed  int64 // Unix milliseconds; 0 while it is open
}
