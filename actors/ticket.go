package actors

import (
	"context"
	"sync/atomic"
)

// Stored says where a record is.
type Stored struct {
	Shard, Sequence string
	SubSequence     uint64 // its index within an aggregated record
	// PossibleDuplicate: an earlier try of unknown outcome may have stored it as well.
	PossibleDuplicate bool
}

// Outcome is what became of a record.
type Outcome struct {
	Stored
	Err *Error // nil: it is stored
}

// refusable is a request of a Go caller, which is a message by itself and needs no sender.
type refusable interface {
	// refuse answers a request that the publisher has not taken in, or of which it is not known.
	refuse(e *Error)
}

// Ticket is a record that Go code publishes: the message to the publisher, and what its caller waits on. The room it takes was made before it was sent.
type Ticket struct {
	outlet  *Outlet
	number  uint64
	open    atomic.Uint64 // the number until it is answered or given up: what carries another is of an earlier use
	taken   atomic.Bool   // by the publisher, which gives its room back from then on; or refused
	data    []byte        // with the header envelope
	key     string
	keyless bool
	hashKey string
	size    int

	outcome  Outcome
	answered chan struct{}                 // of a reusable ticket, whose one caller waits: outcome may be read when it has given a token
	done     atomic.Pointer[chan struct{}] // of any other; made when somebody asks for it
}

// settled is the done channel of what is settled.
var settled = func() *chan struct{} {
	c := make(chan struct{})
	close(c)
	return &c
}()

var _ refusable = (*Ticket)(nil)

// GetCorrelation is what requests have in common.
func (t *Ticket) GetCorrelation() uint64 { return t.number }

func (t *Ticket) settle(number uint64, outcome Outcome) {
	if !t.open.CompareAndSwap(number, 0) {
		return
	}
	t.outcome = outcome
	if t.answered != nil {
		t.answered <- struct{}{}
	} else if waits := t.done.Swap(settled); waits != nil {
		close(*waits)
	}
}

func (t *Ticket) refuse(e *Error) {
	if t.taken.CompareAndSwap(false, true) {
		t.outlet.quota.release(1, int64(t.size))
	}
	t.settle(t.number, Outcome{Err: e})
}

// wait is for the one caller of a reusable ticket. With answered false he has given up, and the ticket may not be used again.
func (t *Ticket) wait(ctx context.Context) (outcome Outcome, answered bool) {
	if ctx.Done() == nil { // a plain receive is cheaper than a select
		<-t.answered
		return t.outcome, true
	}
	select {
	case <-t.answered:
		return t.outcome, true
	case <-ctx.Done():
	}
	if t.open.CompareAndSwap(t.number, 0) {
		return Outcome{}, false
	}
	<-t.answered // it came at the same moment
	return t.outcome, true
}

// Done is closed when the record is settled.
func (t *Ticket) Done() <-chan struct{} {
	if c := t.done.Load(); c != nil {
		return *c
	}
	c := make(chan struct{})
	if t.done.CompareAndSwap(nil, &c) {
		return c
	}
	return *t.done.Load()
}

// Outcome is what became of the record, once Done is closed.
func (t *Ticket) Outcome() Outcome { return t.outcome }

// batchTicket is the same for many records at once.
type batchTicket struct {
	outlet   *Outlet
	number   uint64
	taken    atomic.Bool
	items    []batchItem
	bytes    int64
	done     chan struct{}
	err      *Error // of the whole
	outcomes []Outcome
}

// batchItem is one record of a batchTicket.
type batchItem struct {
	fields recordFields
	size   int
	index  int // of its outcome
}

var _ refusable = (*batchTicket)(nil)

// GetCorrelation is what requests have in common.
func (t *batchTicket) GetCorrelation() uint64 { return t.number }

func (t *batchTicket) refuse(e *Error) {
	if !t.taken.CompareAndSwap(false, true) {
		return // the publisher answers when it gives up
	}
	t.outlet.quota.release(len(t.items), t.bytes)
	t.err = e
	close(t.done)
}

// reply is who is told what became of a record.
type reply struct {
	sender *actorPID
	number uint64 // the correlation
	ticket *Ticket
	batch  *batchJob
	index  int // within the batch
}

// batchJob collects the outcomes of a batch until all of them are known.
type batchJob struct {
	reply
	ticket   *batchTicket
	outcomes []Outcome
	left     int
}
