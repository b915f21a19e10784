package actors

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/leasestore"
)

func openShard(id string, parents ...string) shard { return shard{id: id, parents: parents} }

func closedShard(id string, parents ...string) shard {
	return shard{id: id, parents: parents, closed: true}
}

func atMillis(ms int64) leasestore.Checkpoint { return leasestore.AtTimestamp(time.UnixMilli(ms)) }

func leaseAt(id, checkpoint string, seek int64) leasestore.Lease {
	c, err := leasestore.ParseCheckpoint(checkpoint)
	if err != nil {
		panic(err)
	}
	return leasestore.Lease{Key: leasestore.Key{Shard: id}, Counter: 1, Checkpoint: c, Seek: seek}
}

// Where shards start that have no position of their own.
func tipAt(ms, seek int64) leasestore.StreamState {
	return leasestore.StreamState{Version: 1, Seek: seek, Start: atMillis(ms), Tip: true}
}

func horizonAt(seek int64) leasestore.StreamState {
	return leasestore.StreamState{Version: 1, Seek: seek, Start: leasestore.TrimHorizon()}
}

func timestampAt(ms, seek int64) leasestore.StreamState {
	return leasestore.StreamState{Version: 1, Seek: seek, Start: atMillis(ms)}
}

func decisionText(d decision) string {
	switch d.verdict {
	case verdictWait:
		return "wait"
	case verdictFinished:
		return "finished"
	case verdictOutOfScope:
		return "out of scope"
	case verdictStart:
		if d.tip {
			return "tip " + d.start.String()
		}
		return d.start.String()
	default:
		return "?"
	}
}

type lineageCase struct {
	name    string
	shards  []shard
	leases  []leasestore.Lease
	state   leasestore.StreamState
	opening bool
	want    map[string]string
}

func (c lineageCase) run(t *testing.T) {
	t.Helper()
	got := make(map[string]string)
	for id, d := range newLineage(c.shards, c.leases, c.state, c.opening).decide() {
		got[id] = decisionText(d)
	}
	require.Equal(t, c.want, got)
}

func TestLineage(t *testing.T) {
	for _, c := range []lineageCase{
		{
			name: "nothing is listed", state: tipAt(1000, 0), opening: true, want: map[string]string{},
			leases: []leasestore.Lease{leaseAt("0", "5", 0)},
		},

		// The first opening, at the tip.
		{
			name: "first opening: open shards at the tip, closed ones are out of scope", state: tipAt(1000, 0), opening: true,
			shards: []shard{closedShard("0"), openShard("1", "0"), openShard("2", "0"), openShard("3")},
			want: map[string]string{
				"0": "out of scope", "1": "tip AT_TIMESTAMP@1000", "2": "tip AT_TIMESTAMP@1000", "3": "tip AT_TIMESTAMP@1000",
			},
		},
		{
			name: "first opening: generations of closed shards", state: tipAt(1000, 0), opening: true,
			shards: []shard{closedShard("0"), closedShard("1", "0"), closedShard("2", "0"), openShard("3", "1", "2")},
			want: map[string]string{
				"0": "out of scope", "1": "out of scope", "2": "out of scope", "3": "tip AT_TIMESTAMP@1000",
			},
		},
		{
			name: "first opening again, after a crash when one of two leases was made", state: tipAt(1000, 0), opening: true,
			shards: []shard{closedShard("0"), openShard("1", "0"), openShard("2", "0")},
			leases: []leasestore.Lease{leaseAt("1", "AT_TIMESTAMP@500", 0)},
			want:   map[string]string{"0": "out of scope", "1": "AT_TIMESTAMP@500", "2": "tip AT_TIMESTAMP@1000"},
		},
		{
			name: "first opening again: the leased shard was split meanwhile, the other too", state: tipAt(1000, 0), opening: true,
			shards: []shard{closedShard("1"), closedShard("2"), openShard("3", "1"), openShard("4", "1"), openShard("5", "2"), openShard("6", "2")},
			leases: []leasestore.Lease{leaseAt("1", "AT_TIMESTAMP@500", 0)},
			want: map[string]string{
				"1": "AT_TIMESTAMP@500", "3": "wait", "4": "wait", // what came to 1 was to be read
				"2": "out of scope", "5": "tip AT_TIMESTAMP@1000", "6": "tip AT_TIMESTAMP@1000",
			},
		},
		{
			name: "first opening again: the leased shard has passed the retention", state: tipAt(1000, 0), opening: true,
			shards: []shard{openShard("3", "1"), openShard("4", "1"), openShard("2")},
			leases: []leasestore.Lease{leaseAt("1", "AT_TIMESTAMP@500", 0)},
			want:   map[string]string{"3": "TRIM_HORIZON", "4": "TRIM_HORIZON", "2": "tip AT_TIMESTAMP@1000"},
		},

		{
			name: "first opening again: the leased shard was read to its end", state: tipAt(1000, 0), opening: true,
			shards: []shard{closedShard("1"), openShard("3", "1"), openShard("2")},
			leases: []leasestore.Lease{leaseAt("1", "SHARD_END", 0)},
			want:   map[string]string{"1": "finished", "3": "TRIM_HORIZON", "2": "tip AT_TIMESTAMP@1000"},
		},

		// Later, after an opening at the tip.
		{
			name: "what is stored is where a shard goes on; the closed parent stays out of scope", state: tipAt(1000, 0),
			shards: []shard{closedShard("0"), openShard("1", "0"), openShard("2", "0")},
			leases: []leasestore.Lease{leaseAt("1", "AT_TIMESTAMP@1000", 0), leaseAt("2", "55", 0)},
			want:   map[string]string{"0": "out of scope", "1": "AT_TIMESTAMP@1000", "2": "55"},
		},
		{
			name: "all ancestors of what was opened at the tip stay out of scope", state: tipAt(1000, 0),
			shards: []shard{closedShard("0"), closedShard("1", "0"), closedShard("2", "0"), openShard("3", "1", "2")},
			leases: []leasestore.Lease{leaseAt("3", "AT_TIMESTAMP@1000", 0)},
			want:   map[string]string{"0": "out of scope", "1": "out of scope", "2": "out of scope", "3": "AT_TIMESTAMP@1000"},
		},
		{
			name: "R1: a child of a shard opened at the tip is read whole", state: tipAt(1000, 0),
			shards: []shard{closedShard("1"), openShard("3", "1"), openShard("4", "1")},
			leases: []leasestore.Lease{leaseAt("1", "SHARD_END", 0)},
			want:   map[string]string{"1": "finished", "3": "TRIM_HORIZON", "4": "TRIM_HORIZON"},
		},
		{
			name: "R1: so is its grandchild, closed already", state: tipAt(1000, 0),
			shards: []shard{closedShard("1"), closedShard("3", "1"), openShard("4", "3")},
			leases: []leasestore.Lease{leaseAt("1", "SHARD_END", 0)},
			want:   map[string]string{"1": "finished", "3": "TRIM_HORIZON", "4": "wait"},
		},
		{
			name: "R4: a child waits until its parent is finished, not only closed", state: tipAt(1000, 0),
			shards: []shard{closedShard("1"), openShard("3", "1")},
			leases: []leasestore.Lease{leaseAt("1", "77", 0)},
			want:   map[string]string{"1": "77", "3": "wait"},
		},
		{
			name: "a child that was leased and not read yet waits too", state: tipAt(1000, 0),
			shards: []shard{closedShard("1"), openShard("3", "1")},
			leases: []leasestore.Lease{leaseAt("1", "77", 0), leaseAt("3", "TRIM_HORIZON", 0)},
			want:   map[string]string{"1": "77", "3": "wait"},
		},
		{
			name: "a child that was leased and not read yet goes on when its parent is finished", state: tipAt(1000, 0),
			shards: []shard{closedShard("1"), openShard("3", "1")},
			leases: []leasestore.Lease{leaseAt("1", "SHARD_END", 0), leaseAt("3", "TRIM_HORIZON", 0)},
			want:   map[string]string{"1": "finished", "3": "TRIM_HORIZON"},
		},
		{
			name: "a shard with any other position goes on, whatever its parents", state: horizonAt(0),
			shards: []shard{closedShard("0"), openShard("1", "0"), openShard("2", "0"), openShard("3", "0")},
			leases: []leasestore.Lease{leaseAt("1", "AT_TIMESTAMP@5", 0), leaseAt("2", "<12:3", 0), leaseAt("3", "12:3", 0)},
			want:   map[string]string{"0": "TRIM_HORIZON", "1": "AT_TIMESTAMP@5", "2": "<12:3", "3": "12:3"},
		},

		// The horizon.
		{
			name: "R5, R9: a closed shard is not a finished one", state: horizonAt(1),
			shards: []shard{closedShard("0"), openShard("1", "0"), openShard("2", "0")},
			want:   map[string]string{"0": "TRIM_HORIZON", "1": "wait", "2": "wait"},
		},
		{
			name: "R9: an empty shard is finished by its SHARD_END alone", state: horizonAt(1),
			shards: []shard{closedShard("0"), closedShard("1", "0"), openShard("2", "1")},
			leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 1)},
			want:   map[string]string{"0": "finished", "1": "TRIM_HORIZON", "2": "wait"},
		},
		{
			name: "all shards of the first listing, also when opening is not at the tip", state: horizonAt(1), opening: false,
			shards: []shard{openShard("0"), openShard("1")},
			want:   map[string]string{"0": "TRIM_HORIZON", "1": "TRIM_HORIZON"},
		},

		// Parents that are listed no more.
		{
			name: "R6: the unfinished parent was trimmed away (tip)", state: tipAt(1000, 0),
			shards: []shard{openShard("1", "0"), openShard("2", "0")}, leases: []leasestore.Lease{leaseAt("0", "100", 0)},
			want: map[string]string{"1": "TRIM_HORIZON", "2": "TRIM_HORIZON"},
		},
		{
			name: "R6: the unfinished parent was trimmed away (horizon)", state: horizonAt(1),
			shards: []shard{openShard("1", "0"), openShard("2", "0")}, leases: []leasestore.Lease{leaseAt("0", "100", 1)},
			want: map[string]string{"1": "TRIM_HORIZON", "2": "TRIM_HORIZON"},
		},
		{
			name: "R6: the unfinished parent was trimmed away (timestamp)", state: timestampAt(900, 1),
			shards: []shard{openShard("1", "0"), openShard("2", "0")}, leases: []leasestore.Lease{leaseAt("0", "100", 1)},
			want: map[string]string{"1": "AT_TIMESTAMP@900", "2": "AT_TIMESTAMP@900"},
		},
		{
			name: "R7: two generations were trimmed away (tip)", state: tipAt(1000, 0),
			shards: []shard{openShard("5", "2"), openShard("6", "2")}, leases: []leasestore.Lease{leaseAt("0", "100", 0)},
			want: map[string]string{"5": "TRIM_HORIZON", "6": "TRIM_HORIZON"},
		},
		{
			name: "R7: two generations were trimmed away, and children wait for the third", state: tipAt(1000, 0),
			shards: []shard{closedShard("5", "2"), openShard("7", "5")}, leases: []leasestore.Lease{leaseAt("0", "100", 0)},
			want: map[string]string{"5": "TRIM_HORIZON", "7": "wait"},
		},

		// Merges.
		{
			name: "R8: one parent finished, the other not", state: tipAt(1000, 0),
			shards: []shard{closedShard("1"), closedShard("2"), openShard("3", "1", "2"), openShard("4", "2", "1")},
			leases: []leasestore.Lease{leaseAt("1", "SHARD_END", 0), leaseAt("2", "200", 0)},
			want:   map[string]string{"1": "finished", "2": "200", "3": "wait", "4": "wait"},
		},
		{
			name: "R8: one parent finished, the other waits itself", state: horizonAt(0),
			shards: []shard{closedShard("0"), closedShard("1"), closedShard("2", "0"), openShard("3", "1", "2")},
			leases: []leasestore.Lease{leaseAt("1", "SHARD_END", 0)},
			want:   map[string]string{"0": "TRIM_HORIZON", "1": "finished", "2": "wait", "3": "wait"},
		},
		{
			name: "R8: both finished", state: tipAt(1000, 0),
			shards: []shard{closedShard("1"), closedShard("2"), openShard("3", "1", "2")},
			leases: []leasestore.Lease{leaseAt("1", "SHARD_END", 0), leaseAt("2", "SHARD_END", 0)},
			want:   map[string]string{"1": "finished", "2": "finished", "3": "TRIM_HORIZON"},
		},
		{
			name: "R8: one finished, the other listed no more", state: tipAt(1000, 0),
			shards: []shard{closedShard("1"), openShard("3", "2", "1")}, leases: []leasestore.Lease{leaseAt("1", "SHARD_END", 0)},
			want: map[string]string{"1": "finished", "3": "TRIM_HORIZON"},
		},
		{
			name: "R8: one not finished, the other listed no more", state: tipAt(1000, 0),
			shards: []shard{closedShard("1"), openShard("3", "2", "1")}, leases: []leasestore.Lease{leaseAt("1", "9", 0)},
			want: map[string]string{"1": "9", "3": "wait"},
		},
		{
			// A listing may see one parent closed and the other still open; both were there at the opening.
			name: "one parent out of scope, the other in it", state: tipAt(1000, 0), opening: true,
			shards: []shard{closedShard("1"), openShard("2"), openShard("3", "1", "2"), openShard("4", "2", "1")},
			want:   map[string]string{"1": "out of scope", "2": "tip AT_TIMESTAMP@1000", "3": "wait", "4": "wait"},
		},

		// A timestamp.
		{
			name: "start at a timestamp: parents first", state: timestampAt(900, 1),
			shards: []shard{closedShard("0"), openShard("1", "0"), openShard("2")},
			want:   map[string]string{"0": "AT_TIMESTAMP@900", "1": "wait", "2": "AT_TIMESTAMP@900"},
		},
		{
			name: "start at a timestamp: children may reach back before it", state: timestampAt(900, 1),
			shards: []shard{closedShard("0"), openShard("1", "0")}, leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 1)},
			want: map[string]string{"0": "finished", "1": "AT_TIMESTAMP@900"},
		},

		// Seeks: leases with an older seek number are void.
		{
			name: "seek to the horizon reopens finished shards, and children wait for them", state: horizonAt(3),
			shards: []shard{closedShard("0"), openShard("1", "0"), openShard("2", "0")},
			leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 2), leaseAt("1", "50", 2), leaseAt("2", "TRIM_HORIZON", 1)},
			want:   map[string]string{"0": "TRIM_HORIZON", "1": "wait", "2": "wait"},
		},
		{
			name: "seek to the horizon: the parent is finished again", state: horizonAt(3),
			shards: []shard{closedShard("0"), openShard("1", "0"), openShard("2", "0")},
			leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 3), leaseAt("1", "50", 2), leaseAt("2", "60", 3)},
			want:   map[string]string{"0": "finished", "1": "TRIM_HORIZON", "2": "60"},
		},
		{
			name: "seek to the horizon brings what was out of scope into it", state: horizonAt(1),
			shards: []shard{closedShard("0"), openShard("1", "0")}, leases: []leasestore.Lease{leaseAt("1", "50", 0)},
			want: map[string]string{"0": "TRIM_HORIZON", "1": "wait"},
		},
		{
			name: "seek to a timestamp", state: timestampAt(700, 1),
			shards: []shard{closedShard("0"), openShard("1", "0"), openShard("2")},
			leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 0), leaseAt("1", "50", 0), leaseAt("2", "AT_TIMESTAMP@600", 0)},
			want:   map[string]string{"0": "AT_TIMESTAMP@700", "1": "wait", "2": "AT_TIMESTAMP@700"},
		},
		{
			name: "seek to a timestamp: the parent is finished again", state: timestampAt(700, 1),
			shards: []shard{closedShard("0"), openShard("1", "0")},
			leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 1), leaseAt("1", "50", 0)},
			want:   map[string]string{"0": "finished", "1": "AT_TIMESTAMP@700"},
		},
		{
			name: "seek to the tip: closed shards drop out, finished or not", state: tipAt(2000, 1), opening: true,
			shards: []shard{closedShard("0"), openShard("1", "0"), closedShard("2", "0"), openShard("3", "2"), openShard("4", "2")},
			leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 0), leaseAt("1", "50", 0), leaseAt("2", "60", 0)},
			want: map[string]string{
				"0": "out of scope", "1": "tip AT_TIMESTAMP@2000", "2": "out of scope",
				"3": "tip AT_TIMESTAMP@2000", "4": "tip AT_TIMESTAMP@2000",
			},
		},
		{
			name: "seek to the tip, later: moved shards go on, those before them are out of scope", state: tipAt(2000, 1),
			shards: []shard{closedShard("0"), openShard("1", "0"), closedShard("2", "0"), openShard("3", "2")},
			leases: []leasestore.Lease{
				leaseAt("0", "SHARD_END", 0), leaseAt("1", "AT_TIMESTAMP@2000", 1), leaseAt("2", "60", 0), leaseAt("3", "91", 1),
			},
			want: map[string]string{"0": "out of scope", "1": "AT_TIMESTAMP@2000", "2": "out of scope", "3": "91"},
		},
		{
			name: "seek to the tip was stored and reached no lease: its instant holds", state: tipAt(2000, 1),
			shards: []shard{openShard("1"), openShard("2")},
			leases: []leasestore.Lease{leaseAt("1", "50", 0), leaseAt("2", "AT_TIMESTAMP@1000", 0)},
			want:   map[string]string{"1": "AT_TIMESTAMP@2000", "2": "AT_TIMESTAMP@2000"},
		},
		{
			name: "seek to the tip was stored and reached no lease: the instant holds for their ancestors", state: tipAt(2000, 1),
			shards: []shard{closedShard("0"), openShard("1", "0")}, leases: []leasestore.Lease{leaseAt("1", "50", 0)},
			want: map[string]string{"0": "AT_TIMESTAMP@2000", "1": "wait"},
		},
		{
			name: "seek to the tip was stored and reached no lease: then for the child", state: tipAt(2000, 1),
			shards: []shard{closedShard("0"), openShard("1", "0")},
			leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 1), leaseAt("1", "50", 0)},
			want:   map[string]string{"0": "finished", "1": "AT_TIMESTAMP@2000"},
		},

		// L12: a row without a checkpoint.
		{
			name: "a lease without a checkpoint starts where the stream says", state: horizonAt(0),
			shards: []shard{openShard("0"), closedShard("1"), openShard("2", "1")},
			leases: []leasestore.Lease{leaseAt("0", "", 0), leaseAt("2", "", 0)},
			want:   map[string]string{"0": "TRIM_HORIZON", "1": "TRIM_HORIZON", "2": "wait"},
		},

		// Shapes of listings.
		{
			name: "ids that are not in the order of creation", state: horizonAt(0),
			shards: []shard{openShard("a", "m"), closedShard("m", "z"), closedShard("z")},
			leases: []leasestore.Lease{leaseAt("z", "SHARD_END", 0)},
			want:   map[string]string{"a": "wait", "m": "TRIM_HORIZON", "z": "finished"},
		},
		{
			name: "leases of shards that are not listed decide nothing by themselves", state: horizonAt(0),
			shards: []shard{openShard("5")}, leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 0), leaseAt("9", "4", 0)},
			want: map[string]string{"5": "TRIM_HORIZON"},
		},
	} {
		t.Run(c.name, c.run)
	}
}

// A listing that makes no sense must not hang anyone.
func TestLineageWithCyclesEnds(t *testing.T) {
	for _, state := range []leasestore.StreamState{tipAt(1000, 0), horizonAt(0), timestampAt(5, 0), tipAt(1000, 7)} {
		for _, opening := range []bool{false, true} {
			for _, leases := range [][]leasestore.Lease{
				nil, {leaseAt("a", "5", 0)}, {leaseAt("a", "SHARD_END", 0), leaseAt("b", "TRIM_HORIZON", 7), leaseAt("self", "1", 0)},
			} {
				l := newLineage([]shard{
					openShard("a", "b"), closedShard("b", "c"), closedShard("c", "a", "self"), openShard("self", "self"), openShard("d", "a", "self"),
				}, leases, state, opening)
				require.Len(t, l.decide(), 5)
			}
		}
	}
}

// The opening's lease of one shard failed; the opening went on without it, as it has to. The shard was there when
// the stream was opened at the tip, so it starts there, at the stored instant, not with all that is retained.
func TestShardWhoseFirstLeaseFailedStartsAtTheTip(t *testing.T) {
	t.Run("a shard as old as the stream", lineageCase{
		state:  tipAt(1000, 0),
		shards: []shard{openShard("0"), openShard("1")}, leases: []leasestore.Lease{leaseAt("0", "AT_TIMESTAMP@1000", 0)},
		want: map[string]string{"0": "AT_TIMESTAMP@1000", "1": "AT_TIMESTAMP@1000"},
	}.run)
	t.Run("a child of one that was closed before", lineageCase{
		state:  tipAt(1000, 0),
		shards: []shard{closedShard("0"), openShard("1", "0"), openShard("2", "0")},
		leases: []leasestore.Lease{leaseAt("1", "AT_TIMESTAMP@1000", 0)},
		want:   map[string]string{"0": "out of scope", "1": "AT_TIMESTAMP@1000", "2": "AT_TIMESTAMP@1000"},
	}.run)
}

// After a pause longer than the retention only children are listed; the parent's row is still there. A seek to the
// tip (or start_at) takes precedence over what the children inherit: the row is of before the seek, and void.
func TestSeekToTheTipAfterTheParentWasTrimmedAway(t *testing.T) {
	t.Run("at the seek", lineageCase{
		state: tipAt(2000, 1), opening: true,
		shards: []shard{openShard("1", "0"), openShard("2", "0")}, leases: []leasestore.Lease{leaseAt("0", "100", 0)},
		want: map[string]string{"1": "tip AT_TIMESTAMP@2000", "2": "tip AT_TIMESTAMP@2000"},
	}.run)
	// Shard 1 was closed before the seek and is out of scope, as before its parent was trimmed away.
	t.Run("after the seek", lineageCase{
		state:  tipAt(2000, 1),
		shards: []shard{closedShard("1", "0"), openShard("2", "1")},
		leases: []leasestore.Lease{leaseAt("0", "100", 0), leaseAt("2", "200", 1)},
		want:   map[string]string{"1": "out of scope", "2": "200"},
	}.run)
}

// simStream is a small Kinesis stream and the reading of it, one step of the decide loop at a time. Every step begins with what is
// stored, so that between any two the process may as well have been restarted.
type simStream struct {
	t      *rapid.T
	now    int64
	shards []*simShard
	leases map[string]leasestore.Lease
	state  leasestore.StreamState

	// must: records from here on are to be read exactly once; before: those before this are not to be read.
	must, before int64
	strict       bool
}

type simShard struct {
	shard
	records []*simRecord
	hidden  bool // not listed yet
	gone    bool // listed no more
}

type simRecord struct {
	at    int64 // arrival, and its sequence number: unique
	reads int
	lost  bool // trimmed away
}

func newSimStream(t *rapid.T, strict bool) *simStream {
	s := &simStream{t: t, now: 1000, leases: make(map[string]leasestore.Lease), strict: strict}
	for range rapid.IntRange(1, 3).Draw(t, "shards") {
		s.create()
	}
	return s
}

func (s *simStream) create(parents ...*simShard) {
	n := &simShard{shard: shard{id: fmt.Sprintf("shard-%03d", len(s.shards))}}
	for _, p := range parents {
		p.closed = true
		n.parents = append(n.parents, p.id)
	}
	if !s.strict && len(parents) > 0 {
		n.hidden = rapid.Bool().Draw(s.t, "hidden") || slices.ContainsFunc(parents, isHidden)
	}
	s.shards = append(s.shards, n)
}

// isHidden: a listing that lags behind shows no child before its parents.
func isHidden(sh *simShard) bool { return sh.hidden }

func (s *simStream) open() (open []*simShard) {
	for _, sh := range s.shards {
		if !sh.closed {
			open = append(open, sh)
		}
	}
	return open
}

// history lets something happen to the stream.
func (s *simStream) history() {
	for range rapid.IntRange(0, 6).Draw(s.t, "events") {
		s.now += 10
		open := s.open()
		a := open[rapid.IntRange(0, len(open)-1).Draw(s.t, "a")]
		switch rapid.SampledFrom([]string{"put", "put", "put", "split", "merge", "show"}).Draw(s.t, "event") {
		case "put":
			a.records = append(a.records, &simRecord{at: s.now})
		case "split":
			if len(s.shards) < 16 {
				s.create(a)
				s.create(a)
			}
		case "merge":
			if b := open[rapid.IntRange(0, len(open)-1).Draw(s.t, "b")]; b != a {
				s.create(a, b)
			}
		case "show":
			a.hidden = slices.ContainsFunc(a.parents, func(id string) bool { return s.byID(id).hidden })
		}
	}
	s.now += 10
}

// trim lets the oldest shard pass the retention, if it is closed.
func (s *simStream) trim() {
	for _, sh := range s.shards {
		if sh.gone {
			continue
		}
		if sh.closed && !sh.hidden {
			sh.gone = true
			for _, r := range sh.records {
				r.lost = true
			}
		}
		return
	}
}

func (s *simStream) byID(id string) *simShard {
	n, _ := strconv.Atoi(id[len("shard-"):])
	return s.shards[n]
}

func (s *simStream) decide(opening bool) map[string]decision {
	var listed []shard
	for _, sh := range s.shards {
		if !sh.hidden && !sh.gone {
			listed = append(listed, sh.shard)
		}
	}
	leases := make([]leasestore.Lease, 0, len(s.leases))
	for _, l := range s.leases {
		leases = append(leases, l)
	}
	return newLineage(listed, leases, s.state, opening).decide()
}

// started are the shards to be read by a set of decisions, in some order.
func (s *simStream) started(decisions map[string]decision) (ids []string) {
	for _, sh := range s.shards {
		if d, ok := decisions[sh.id]; ok && d.verdict == verdictStart {
			ids = append(ids, sh.id)
		}
	}
	if len(ids) > 1 {
		ids = rapid.Permutation(ids).Draw(s.t, "order")
	}
	return ids
}

// take writes the lease as a reader does: a new one, or a void one moved.
func (s *simStream) take(id string, d decision) {
	lease, ok := s.leases[id]
	if !ok {
		lease = leasestore.Lease{Key: leasestore.Key{Shard: id}, Checkpoint: d.start, Seek: s.state.Seek, Parents: s.byID(id).parents}
	}
	if lease.Seek != s.state.Seek || lease.Checkpoint.IsZero() {
		lease.Checkpoint, lease.Seek = d.start, s.state.Seek
	}
	lease.Counter++
	s.leases[id] = lease
}

// read takes a shard's lease and reads up to n records of it; to its end, if it is closed and n is enough.
func (s *simStream) read(id string, d decision, n int) (progress bool) {
	_, had := s.leases[id]
	s.take(id, d)
	sh, lease := s.byID(id), s.leases[id]
	left := s.after(sh, d)
	for len(left) > 0 && n > 0 {
		s.readOne(sh, left[0])
		lease.Checkpoint = leasestore.AtSequence(strconv.FormatInt(left[0].at, 10), 0)
		left, n, progress = left[1:], n-1, true
	}
	if sh.closed && len(left) == 0 && n > 0 {
		lease.Checkpoint, progress = leasestore.ShardEnd(), true
	}
	s.leases[id] = lease
	return progress || !had
}

// after are the records of a shard at and behind a position.
func (s *simStream) after(sh *simShard, d decision) (records []*simRecord) {
	for _, r := range sh.records {
		include := false
		switch d.start.Kind() {
		case leasestore.KindTrimHorizon:
			include = true
		case leasestore.KindTimestamp:
			include = r.at >= d.start.Time().UnixMilli()
		case leasestore.KindSequence:
			sequence, _ := d.start.Sequence()
			include = leasestore.CompareSequence(strconv.FormatInt(r.at, 10), sequence) > 0
		case leasestore.KindNone, leasestore.KindBefore, leasestore.KindShardEnd:
			require.Fail(s.t, "not a place to start", "%s at %s", sh.id, d.start)
		}
		if d.tip {
			include = r.at >= s.now
		}
		if include && !r.lost {
			records = append(records, r)
		}
	}
	return records
}

func (s *simStream) readOne(sh *simShard, r *simRecord) {
	r.reads++
	if r.at >= s.must {
		require.Equal(s.t, 1, r.reads, "record %d of %s is read again", r.at, sh.id)
	}
	if s.strict {
		require.GreaterOrEqual(s.t, r.at, s.before, "a record of %s is out of scope, and read", sh.id)
	}
	s.ancestors(sh, func(a *simShard) {
		for _, older := range a.records {
			require.True(s.t, older.at < s.must || older.lost || older.reads > 0,
				"record %d of %s is read before %d of its ancestor %s", r.at, sh.id, older.at, a.id)
		}
	})
}

func (s *simStream) ancestors(sh *simShard, visit func(a *simShard)) {
	for _, id := range sh.parents {
		visit(s.byID(id))
		s.ancestors(s.byID(id), visit)
	}
}

// first opens the stream at the tip for the first time; crashes are allowed before the state is stored.
func (s *simStream) first() {
	s.before = s.now
	crashes := 0
	if !s.strict {
		crashes = rapid.IntRange(0, 2).Draw(s.t, "crashes")
	}
	for n := crashes; ; n-- {
		s.state = leasestore.StreamState{Start: atMillis(s.now), Tip: true}
		s.must = s.now
		s.open1(n > 0)
		if n == 0 {
			s.state.Version = 1
			return
		}
		s.history()
	}
}

// open1 is a pass of an opening or a seek: what may start takes its lease at once. It may stop half way.
func (s *simStream) open1(crash bool) {
	decisions := s.decide(s.state.Tip)
	for _, id := range s.started(decisions) {
		if crash && rapid.Bool().Draw(s.t, "crash") {
			return
		}
		if !s.strict && rapid.IntRange(0, 4).Draw(s.t, "lease fails") == 0 {
			continue
		}
		s.read(id, decisions[id], 0)
	}
}

// seek moves the whole stream.
func (s *simStream) seek(kind string) {
	s.state.Version++
	s.state.Seek++
	s.state.Tip = false
	switch kind {
	case "horizon":
		s.state.Start, s.must = leasestore.TrimHorizon(), 0
	case "timestamp":
		s.must = s.now - int64(rapid.IntRange(0, 300).Draw(s.t, "ago"))
		s.state.Start = atMillis(s.must)
	case "tip":
		s.must = s.now
		s.state.Start, s.state.Tip = atMillis(s.now), true
	}
	s.before = s.must
	for _, sh := range s.shards {
		for _, r := range sh.records {
			r.reads = 0
		}
	}
	s.open1(!s.strict && rapid.Bool().Draw(s.t, "crash in the seek"))
}

// some reads a little of this and that.
func (s *simStream) some() {
	decisions := s.decide(false)
	for _, id := range s.started(decisions) {
		if rapid.Bool().Draw(s.t, "read") {
			s.read(id, decisions[id], rapid.IntRange(0, 3).Draw(s.t, "n"))
		}
	}
}

// drain reads everything to its end and checks that nothing is left.
func (s *simStream) drain() {
	for _, sh := range s.shards {
		sh.hidden = false
	}
	for rounds := 0; ; rounds++ {
		require.LessOrEqual(s.t, rounds, 2*len(s.shards)+2, "reading never ends")
		decisions := s.decide(false)
		progress := false
		for _, id := range s.started(decisions) {
			progress = s.read(id, decisions[id], 1000) || progress
		}
		if !progress {
			break
		}
	}
	for id, d := range s.decide(false) {
		require.NotEqual(s.t, verdictWait, d.verdict, "%s waits for ever", id)
		if d.verdict == verdictStart {
			require.False(s.t, s.byID(id).closed, "%s is closed, read and not finished", id)
		}
	}
	for _, sh := range s.shards {
		for _, r := range sh.records {
			if r.at >= s.must && !r.lost {
				require.Equal(s.t, 1, r.reads, "record %d of %s", r.at, sh.id)
			}
		}
	}
}

func (s *simStream) start() {
	kind := rapid.SampledFrom([]string{"first", "horizon", "timestamp", "tip"}).Draw(s.t, "start")
	if kind == "first" {
		s.first()
	} else {
		s.seek(kind) // start_at is a seek at the first opening
	}
}

// Whatever happens to the stream and to the process, every record in scope is read exactly once, and after those of
// its shard's ancestors. Here processes crash between any two writes, listings lag behind, and shards pass the retention.
func TestLineageReadsEverythingOnceInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimStream(t, false)
		s.history()
		s.start()
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			s.history()
			switch rapid.SampledFrom([]string{"read", "read", "read", "trim", "seek", "drain"}).Draw(t, "step") {
			case "read":
				s.some()
			case "trim":
				s.trim()
			case "seek":
				s.seek(rapid.SampledFrom([]string{"horizon", "timestamp", "tip"}).Draw(t, "to"))
			case "drain":
				s.drain()
			}
		}
		s.drain()
	})
}

// Without crashes and lagging listings, nothing that is out of scope is read either.
func TestLineageReadsNothingOutOfScope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimStream(t, true)
		s.history()
		s.start()
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			s.history()
			switch rapid.SampledFrom([]string{"read", "read", "read", "trim", "seek", "drain"}).Draw(t, "step") {
			case "read":
				s.some()
			case "trim":
				s.trim()
			case "seek":
				s.seek(rapid.SampledFrom([]string{"horizon", "timestamp", "tip"}).Draw(t, "to"))
			case "drain":
				s.drain()
			}
		}
		s.drain()
	})
}
