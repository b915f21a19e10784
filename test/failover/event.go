package failover

import "time"

// What says what an Event is about.
type What string

// The events. Whoever keeps the log puts a line in before any write that its node made after it, so what a node printed before it gave a lease away stands
// before that write.
const (
	Line  What = "line"  // Node has printed a record
	Write What = "write" // Node's write of a lease was applied; Row is the row as it is then

	Started   What = "started"   // Node's process
	Killed    What = "killed"    // without warning
	Told      What = "told"      // to leave, by SIGTERM
	Left      What = "left"      // it has ended as it was told to
	Stopped   What = "stopped"   // by SIGSTOP
	Continued What = "continued" // by SIGCONT
	Cut       What = "cut"       // Node can't reach the store from now on
	Healed    What = "healed"    // it can again
)

// Event is an entry of the log. Times are since the log began.
type Event struct {
	At   time.Duration
	What What
	Node string

	Shard string // of a line or a write

	Sequence string // of a line

	Began time.Duration // of a write: it was passed on to the store no sooner
	Row   Row
}

// Row is a lease as the table has it. A row that was removed is the zero Row.
type Row struct {
	Owner      string // the node that reads the shard, and alone may give it away
	Next       string // the node that it is about to be given to
	Counter    int64
	Checkpoint string // a sequence number, or a word
}

// Record is a record as it was published. Those of a key have the numbers 0, 1, 2 … in the order in which they were published.
type Record struct {
	Shard, Sequence, Key string
	Number               int
	Sent                 time.Duration // it was stored no sooner
}

// Log is what there is to go by.
type Log struct {
	TTL     time.Duration // of leases
	Records []Record      // in the order in which they were published
	Events  []Event
}
