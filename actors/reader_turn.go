package actors

// maxAcquisitions is how many leases are being taken at a time.
const maxAcquisitions = 64

// readerTurns are a reader's at its broker's turnstiles.
type readerTurns struct {
	acquire *turn
	call    *turn
}

// turnCame: there is a place for what the reader waits to do.
type turnCame struct{ acquire bool }

func newReaderTurns(cfg *Config, fx *effects) readerTurns {
	return readerTurns{
		acquire: cfg.acquisitions.newTurn(func() { fx.post(turnCame{acquire: true}) }),
		call:    cfg.calls.newTurn(func() { fx.post(turnCame{}) }),
	}
}

// page takes a place for the reading of a page. An event of enhanced fan-out needs none: it comes on a connection that is open.
func (t *readerTurns) page(push bool) (done func(), ok bool) {
	if push {
		return func() {}, true
	}
	return t.call.take()
}

func (t *readerTurns) drop() {
	t.acquire.drop()
	t.call.drop()
}

// onTurn does what was waiting. If that is not wanted any more, another gets the place.
func (r *reader) onTurn(m turnCame) {
	switch {
	case m.acquire && r.drain.draining:
	case m.acquire:
		r.acquire()
	case r.fetch.openDue:
		r.openIterator()
	default:
		r.fetchMore()
	}
	r.turns.acquire.unused()
	r.turns.call.unused()
}
