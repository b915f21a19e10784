package actors

import (
	"fmt"
	"log/slog"
	"math/bits"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// aggregated: how many user records it holds is known only when it is unpacked.
func aggregated(rec types.Record) bool { return kpl.MayBeAggregated(rec.Data) }

// take adds a page to what is to be unpacked. From then on it is read: an iterator is opened behind it.
func (r *reader) take(records []types.Record, continuation string) {
	f := &r.fetch
	if f.lastRead == "" {
		r.unpack.done = placeAt(f.position)
	}
	r.unpack.add(records, r.window.newArena(arenaBytes(records)))
	if n := len(records); n > 0 {
		f.since = time.Time{}
		last := aws.ToString(records[n-1].SequenceNumber)
		if r.unpack.done.wanted(last) != wholeRecord && (f.lastRead == "" || leasestore.CompareSequence(last, f.lastRead) > 0) {
			f.lastRead = strings.Clone(last) // else it would keep its page
		}
	}
	if continuation != "" {
		f.lastRead = continuation
	}
}

// unpackMore fills the window from what has been read.
func (r *reader) unpackMore(c actor.Context) {
	for r.unpack.waiting() && !r.unpack.stray.stuck && (r.window.room() > 0 || r.window.empty()) {
		before := r.unpack.stray.count
		more, page := r.unpack.more(r.window.room(), r.window.nextID())
		for i := range more {
			r.window.add(&more[i], page)
		}
		if r.unpack.stray.count != before {
			r.onStrays(c, before)
		}
	}
	r.share.holds(r.window.pinned)
}

// unpackAndDeliver delivers as much as it can: what goes out makes room for what waits to be unpacked, which may have other keys.
func (r *reader) unpackAndDeliver(c actor.Context) {
	for {
		r.unpackMore(c)
		r.deliver(c)
		if !r.unpack.waiting() || r.unpack.stray.stuck || r.window.room() == 0 {
			return
		}
	}
}

// onStrays says that there are strays, though not for each.
func (r *reader) onStrays(c actor.Context, before int64) {
	s := &r.unpack.stray
	if bits.Len64(uint64(s.count)) != bits.Len64(uint64(before)) { //nolint:gosec // a count; told at 1, 2, 4, 8 …
		r.log().Warn("user records whose hash key lies outside the shard", slog.Int64("so_far", s.count), slog.String("at", s.at.String()))
	}
	if s.stuck {
		r.tell(c, &Error{
			Kind: messages.ErrorKind_ERROR_KIND_READ, Stream: r.how.stream.spelling, Shard: r.shard.id,
			Text:   fmt.Sprintf("the user record %s has a hash key outside the shard, which stops here", s.at),
			Advice: "seek past it, or subscribe with another policy for stray records",
		})
	}
}
