package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	relaxed bool
	assumed []string
	want    map[string]string
}

func (c lineageCase) run(t *testing.T) {
	t.Helper()
	got := make(map[string]string)
	l := newLineage(c.shards, c.leases, c.state, c.opening)
	l.relaxed, l.assumed = c.relaxed, make(map[string]bool)
	for _, id := range c.assumed {
		l.assumed[id] = true
	}
	for id, d := range l.decide() {
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
