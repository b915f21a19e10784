package actors

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/protokinesis/protokinesis/leasestore"
)

// fetcher is a reader's place in its shard and the one call that may be under way.
type fetcher struct {
	// position is where to open when nothing has been read since: the checkpoint, or the start.
	position leasestore.Checkpoint
	// tip: position is the instant of an opening at the tip, for which LATEST has not been asked yet.
	tip bool
	// wasTip: position is such an instant, whether asked for or not.
	wasTip bool
	// refused is how many instants in a row the service refused, as if they were of the future.
	refused int
	// since drops what arrived before it, up to the first record that did not: some services answer AT_TIMESTAMP with all they have.
	since time.Time
	// lastRead is the last record read by this generation; an iterator is opened after it, and what comes again at or below it
	// is dropped, as some services repeat.
	lastRead string

	iterator string
	push     *push     // the open subscription, with enhanced fan-out
	pushedAt time.Time // when it was last asked for
	pushes   int       // events of it
	opening  bool
	openDue  bool // it is to be opened when there is a place for the call
	calling  bool
	cancel   context.CancelFunc
	pace     *pacer    // of GetRecords
	opens    *pacer    // of GetShardIterator
	owed     int       // bytes of the last page, if no throttle has been waited out since
	called   time.Time // the last call
	wake     time.Time // when timerFetch fires, if armed
	spread   bool      // the first pause has been taken
	next     time.Time // not before: poll interval or backoff
	failures int       // in a row
	refusals int       // throttles in a row
	reopened bool      // the iterator was given up since the last page
	told     bool      // the subscriber knows of them
	lag      int64
	asked    bool          // lag is known
	answered time.Time     // the last page
	stirred  time.Time     // the last page with records, or the first after a longer time than a pause
	pause    time.Duration // between reads at the tip, the last taken
}

// abandon gives up the call under way and the iterator.
func (f *fetcher) abandon() {
	if f.cancel != nil {
		f.cancel()
	}
	f.drop()
	f.cancel, f.opening, f.calling, f.lastRead, f.failures = nil, false, false, "", 0
	f.openDue = false
	f.refusals, f.reopened = 0, false
	f.next, f.since, f.stirred, f.refused = time.Time{}, time.Time{}, time.Time{}, 0
}

// behind is the lag in milliseconds as the service told it a moment ago; -1 when it is not known, or not any more: the shard may not be read
// because its subscriber stands still, or because it can't be.
func (f *fetcher) behind(pollInterval time.Duration) int64 {
	if !f.asked || time.Since(f.answered) > max(lagKnown, 3*max(pollInterval, f.pause)) {
		return -1
	}
	return f.lag
}

// lagKnown is how long a lag is believed. With enhanced fan-out it is told every five seconds.
const lagKnown = 10 * time.Second

// pageRead is the result of GetRecords. The actor makes deliveries of it itself, once the next call is under way.
type pageRead struct {
	generation   uint64
	out          *kinesis.GetRecordsOutput
	limit        int
	continuation string // where to subscribe again, with enhanced fan-out
	err          error
}

// fetchMore reads the next page if there is an iterator, room for it, and it is time.
func (r *reader) fetchMore() { r.fetchAfter(nil) }

// fetchAfter does so while a page is about to be added to the window.
func (r *reader) fetchAfter(page []types.Record) {
	f := &r.fetch
	adding := len(page)
	room := r.window.roomAfter(adding, arenaBytes(page))
	if r.unpack.waiting() || f.calling || f.opening || f.iterator == "" || r.end.reached || r.drain.draining || room == 0 || r.state != stateReading {
		return
	}
	now := time.Now()
	if wait := r.fetchWait(now, adding); wait > 0 {
		if wake := now.Add(wait); !r.timers.armed(timerFetch) || wake.Before(f.wake) {
			f.wake = wake
			r.timers.set(timerFetch, wait)
		}
		return
	}
	r.timers.cancel(timerFetch)
	done, ok := r.turns.page(f.push != nil)
	if !ok {
		return
	}
	limit := r.pageLimit(room, adding, now)
	if !r.share.reserve() {
		if adding > 0 || !r.window.empty() {
			done()
			return // the settling of what is held goes on here
		}
		limit = min(limit, fewRecords)
	}
	f.pace.called(now)
	f.called, f.calling = now, true
	r.readPage(limit, done)
}

// fetchWait is how long the next read has to wait.
func (r *reader) fetchWait(now time.Time, adding int) time.Duration {
	f := &r.fetch
	if f.push != nil {
		return 0 // the service sets the pace
	}
	wait := max(f.next.Sub(now), f.pace.wait(now))
	if adding == 0 && !r.window.worthReading() {
		wait = max(wait, f.called.Add(r.how.pollInterval).Sub(now))
	}
	return wait
}

// readPage calls for up to so many records, or waits for the next event of the open subscription; done is called when the call has ended.
func (r *reader) readPage(limit int, done func()) {
	f, generation := &r.fetch, r.generation
	if open := f.push; open != nil {
		f.cancel = r.fx.run(pushWatchdog, func(ctx context.Context) any { return open.nextEvent(ctx, generation) })
		return
	}
	_, arn := r.how.stream.target()
	in := &kinesis.GetRecordsInput{
		ShardIterator: aws.String(f.iterator), Limit: aws.Int32(int32(limit)), StreamARN: arn, //nolint:gosec // ≤ 10,000
	}
	client := r.clients.Data
	f.cancel = r.fx.run(r.cfg.Timings.CallTimeout, func(ctx context.Context) any {
		defer done()
		out, err := client.GetRecords(ctx, in)
		if err == nil {
			err = checkRecords(out.Records)
		}
		return pageRead{generation: generation, out: out, limit: limit, err: err}
	})
}

// pagesAhead is how many windows a page may fill.
const pagesAhead = 10

// pageLimit is how many records to ask for: as many as there is room for. While it is the calls per second that hold the shard up, it is more, which
// wait to be unpacked: a thousand records of a hundred bytes, five times a second, are a quarter of what the service lets one read. A page that is read
// ahead says nothing of how fast the subscriber is.
func (r *reader) pageLimit(room, adding int, now time.Time) int {
	if pace := r.fetch.pace; pace.busy(now) || (adding == 0 && pace.hasty(now)) {
		room = max(room, pagesAhead*r.how.windowRecords)
	}
	return min(room, maxBatch)
}

func (r *reader) onPageRead(c actor.Context, m pageRead) {
	f := &r.fetch
	if m.generation != r.generation {
		return
	}
	f.calling = false
	if r.drain.draining {
		return
	}
	if m.err != nil {
		r.share.failed()
		if f.push == nil || !r.onPushEnded(c, m.err) {
			r.onReadFailure(c, m.err)
		}
		return
	}
	held := f.heldUp(r.how.pollInterval)
	f.lag = aws.ToInt64(m.out.MillisBehindLatest)
	f.asked, f.answered = m.out.MillisBehindLatest != nil && f.lag >= 0, time.Now()
	f.iterator, f.owed = aws.ToString(m.out.NextShardIterator), pageBytes(m.out.Records)
	r.share.arrived(f.owed)
	f.pushes++
	if f.iterator != "" || len(m.out.Records) > 0 || len(m.out.ChildShards) > 0 {
		r.recovered() // an answer that says nothing is no success
	}
	if held || len(m.out.Records) > 0 {
		f.stirred = f.answered
	}
	if f.iterator != "" && f.lag <= 0 && len(m.out.Records) < m.limit {
		f.pause = f.idle(idlePause(f.answered.Sub(f.stirred), r.how.pollInterval, r.how.idlePollInterval))
		if f.pause > 2*r.how.pollInterval {
			f.pause = together(f.answered, f.pause)
		}
		f.next = f.answered.Add(f.pause)
	}
	if !r.unpack.waiting() && !slices.ContainsFunc(m.out.Records, aggregated) {
		r.fetchAfter(m.out.Records) // the next page is on its way while this one is delivered
	}
	before := f.lastRead
	r.take(arrivedSince(m.out.Records, f.since), m.continuation)
	r.unpackMore(c)
	if f.iterator == "" {
		f.drop()
		r.onEndCandidate(m.out.ChildShards, f.lastRead == before)
	}
	r.unpackAndDeliver(c)
	r.fetchMore()
}

// idle is the pause after a shard was read to its tip: the one that is due, give or take a tenth, and any part of it the first time, so that
// shards that were opened together are not polled together for ever.
func (f *fetcher) idle(pause time.Duration) time.Duration {
	if !f.spread {
		f.spread = true
		return time.Duration(rand.Float64() * float64(pause)) //nolint:gosec // spreads load, guards nothing
	}
	return spread(pause)
}
