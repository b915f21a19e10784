package file

import (
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

const (
	// maxBatch bounds how many writes one transaction takes, and so the wait of the first of them.
	maxBatch = 1024
	// gather is the least time between two commits while writers compete. A thousand shards that checkpoint once a second would
	// otherwise have a fast disk fsync a thousand times a second.
	gather = 10 * time.Millisecond
)

// writer is the one goroutine that writes to the database. While a commit waits for the disk the next writes queue up,
// and are then committed together. A writer that is alone never waits.
type writer struct {
	db      *bolt.DB
	path    string
	queue   chan *write
	stopped chan struct{}

	// Owned by run.
	failed error // once bbolt panicked in a write its memory is not to be trusted: no more writes
	begun  time.Time
	size   int // of the last batch
}

// write is one caller's part of a transaction.
type write struct {
	ctx     context.Context //nolint:containedctx // the caller's, for as long as it waits in the queue
	apply   func(table) error
	settled func()
	done    chan error
	err     error
}

func startWriter(db *bolt.DB, path string) *writer {
	w := &writer{db: db, path: path, queue: make(chan *write, maxBatch), stopped: make(chan struct{})}
	go w.run()
	return w
}

// do waits until apply was run and committed, or ctx ends. apply reads and checks first and changes something at its end, at most once:
// if it returns an error it has changed nothing. settled is called when apply will not run any more.
func (w *writer) do(ctx context.Context, apply func(table) error, settled func()) error {
	job := &write{ctx: ctx, apply: apply, settled: settled, done: make(chan error, 1)}
	select {
	case w.queue <- job:
	case <-ctx.Done():
		settled()
		return ctx.Err()
	}
	select {
	case err := <-job.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop ends the goroutine. No do may be under way or follow.
func (w *writer) stop() {
	close(w.queue)
	<-w.stopped
}

func (w *writer) run() {
	defer close(w.stopped)
	for first := range w.queue {
		w.pace()
		w.begun = time.Now()
		batch := w.take(first)
		w.size = len(batch)
		w.commit(batch)
	}
}

// pace spreads the commits of competing writers.
func (w *writer) pace() {
	if wait := gather - time.Since(w.begun); w.size > 1 && wait > 0 {
		<-time.NewTimer(wait).C
	}
}

// take returns first and the writes that wait behind it.
func (w *writer) take(first *write) []*write {
	batch := []*write{first}
	for len(batch) < maxBatch {
		select {
		case job, ok := <-w.queue:
			if !ok {
				return batch
			}
			batch = append(batch, job)
		default:
			return batch
		}
	}
	return batch
}

// commit runs the batch in one transaction and tells each caller what became of its write.
func (w *writer) commit(batch []*write) {
	err := w.failed
	if err == nil {
		err = guard(func() error { return w.transact(batch) })
		if errors.Is(err, ErrCorrupt) {
			w.failed = fmt.Errorf("%w; close the store and open it again", err)
		}
	}
	for _, job := range batch {
		if err != nil {
			// Also for a write that was refused: it was judged by rows that were not stored in the end.
			job.err = err
		}
		if job.err != nil {
			job.err = fmt.Errorf("lease file %s: %w", w.path, job.err)
		}
		job.done <- job.err
		job.settled()
	}
}

// transact returns an error if the batch as a whole failed; what its writes say for themselves is in their err.
func (w *writer) transact(batch []*write) error {
	tx, err := w.db.Begin(true)
	if err != nil {
		return err
	}
	// After a commit this does nothing. After a panic it may panic again, which must not hide the first.
	defer func() { _ = guard(tx.Rollback) }()
	changed := false
	for _, job := range batch {
		// Who is gone was told that the outcome is unknown; nothing written is the kinder one.
		if job.err = job.ctx.Err(); job.err == nil {
			job.err = job.apply(table{tx})
		}
		changed = changed || job.err == nil
	}
	if !changed {
		return nil // and no fsync
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w; whether the write was stored is unknown, read it back", err)
	}
	return nil
}
