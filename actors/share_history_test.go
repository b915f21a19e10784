package actors

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// fleetSteps are what may happen to a fleet, the frequent more than once.
var fleetSteps = []string{
	"wait", "wait", "wait", "put", "put", "join", "join", "leave", "kill", "cut off", "rejoined", "stop", "go on", "split", "merge", "slow", "quick", "seek",
}

// fleetRun carries a history of a fleet out.
type fleetRun struct {
	*crew
	clerk  *probe.Probe // asks for what takes a while
	named  int
	cut    map[string]bool // nodes that the store is out of reach for
	halted map[string]bool // nodes that stand still
	sought time.Time       // the last seek
	quits  int             // answers to Shutdown that are awaited
	log    []string
}

// R4, L7, L9, L20: whatever happens to the nodes of a fleet, when it is over nothing is lost, each key's records came in order, children after their
// parents, no shard was delivered by who did not hold it, and the nodes that are left share all of it fairly.
func TestAnyHistoryOfAFleet(t *testing.T) {
	most, _ := strconv.Atoi(os.Getenv("PROTOKINESIS_TEST_HISTORIES"))
	ran, failed := 0, false
	rapid.Check(t, func(rt *rapid.T) {
		history := make([]step, 0, 16)
		for range rapid.IntRange(4, 16).Draw(rt, "steps") {
			history = append(history, step{
				what: rapid.SampledFrom(fleetSteps).Draw(rt, "step"), n: rapid.IntRange(0, 5).Draw(rt, "n"), m: rapid.IntRange(0, 5).Draw(rt, "m"),
			})
		}
		if ran++; ran > max(most, 25) && !failed {
			return // each takes a while
		}
		var wrong []string
		inCrew(t, 4, func(cr *crew) {
			f := &fleetRun{crew: cr, clerk: probe.New(cr.t, cr.system, "clerk"), cut: make(map[string]bool), halted: make(map[string]bool)}
			f.add()
			probe.Fish(f.clerk, func(*messages.Subscribed) bool { return true }) // from the horizon; the others go on from what is stored
			for i, s := range history {
				f.log = append(f.log, fmt.Sprintf("%d: %v at %s", i, s, time.Now().Format("04:05.000")))
				f.do(s)
				f.passSlowly(time.Duration(100+400*s.m) * time.Millisecond)
			}
			wrong = f.finish()
			if len(wrong) > 0 {
				wrong = append(wrong, f.log...)
				wrong = append(wrong, f.history("")...)
			}
		})
		if len(wrong) > 0 {
			failed = true
			rt.Fatalf("%s", strings.Join(wrong, "\n"))
		}
	})
}

// add starts another node.
func (f *fleetRun) add() {
	name := fmt.Sprintf("n%d", f.named)
	f.named++
	n := f.spawn(name, func(c *Config) { c.quiet = f.named%2 == 0 }) // every other node is out of reach of hints, but for the store
	subscribe := subscribeTo(testStream, f.sub)
	if f.named == 1 {
		subscribe.Stream.StartAt = toHorizon()
	}
	f.clerk.Request(n.broker, subscribe)
}

// pick is one of the living nodes that run; "" if there is none.
func (f *fleetRun) pick(n int, fits func(name string) bool) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(f.living)) {
		if fits(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return names[n%len(names)]
}

func (f *fleetRun) runs(name string) bool { return !f.halted[name] && !f.cut[name] }

func (f *fleetRun) do(s step) {
	switch s.what {
	case "wait":
		f.passSlowly(time.Duration(s.n*s.m) * time.Second)
	case "put":
		for range s.n {
			f.putEach()
		}
	case "join":
		if len(f.living) < 5 {
			f.add()
		}
	case "leave", "kill":
		f.lose(s)
	case "cut off":
		if name := f.pick(s.n, f.runs); name != "" {
			f.cut[name] = true
			f.living[name].tap.onCall(func(ctx context.Context, _ storeCall, _ func(ctx context.Context) error) error {
				<-ctx.Done()
				return ctx.Err()
			})
		}
	case "rejoined":
		if name := f.pick(s.n, func(name string) bool { return f.cut[name] }); name != "" {
			f.heal(name)
		}
	case "stop":
		if name := f.pick(s.n, f.runs); name != "" && len(f.living) > 1 {
			f.halted[name] = true
			f.living[name].shut()
		}
	case "go on":
		if name := f.pick(s.n, func(name string) bool { return f.halted[name] }); name != "" {
			f.heal(name)
		}
	case "slow":
		f.works([]time.Duration{300 * time.Millisecond, 2 * time.Second, 6 * time.Second, 15 * time.Second}[s.n%4])
	case "quick":
		f.works(0)
	case "seek":
		f.seekSomewhere(s)
	default:
		f.reshard(s)
	}
}

func (f *fleetRun) lose(s step) {
	name := f.pick(s.n, f.runs)
	if name == "" || len(f.living) == 1 {
		return
	}
	if s.what == "kill" {
		f.kill(name)
		return
	}
	f.clerk.Request(f.living[name].broker, &messages.Shutdown{Timeout: durationOf(time.Duration(s.m) * time.Second)})
	delete(f.living, name)
	f.quits++
}

func (f *fleetRun) heal(name string) {
	p := f.living[name].process
	p.tap.onCall(p.around(nil, false))
	p.open()
	delete(f.cut, name)
	delete(f.halted, name)
}

// seekSomewhere asks a node to seek to the horizon. Its answer does not matter: if it was stored it holds, if not nothing was moved.
func (f *fleetRun) seekSomewhere(s step) {
	name := f.pick(s.n, f.runs)
	if name == "" || s.m < 3 { // not too often
		return
	}
	before := f.seekNumber()
	f.me.Send(f.living[name].broker, &messages.Seek{Stream: testStream, To: toHorizon()})
	time.Sleep(50 * time.Millisecond)
	if f.seekNumber() > before {
		f.sought = time.Now().Add(-50 * time.Millisecond)
	}
}

func (f *fleetRun) seekNumber() (n int64) {
	all, err := f.store.Streams(f.t.Context())
	require.NoError(f.t, err)
	for _, s := range all {
		n = max(n, s.Seek)
	}
	return n
}

func (f *fleetRun) reshard(s step) {
	open := f.crew.open()
	i := s.n % len(open)
	switch {
	case s.what == "split" && len(open) < 7:
		split(f.world, open[i])
	case s.what == "merge" && i+1 < len(open):
		merge(f.world, open[i], open[i+1])
	}
}

// finish mends all, lets it settle, and says what is wrong.
func (f *fleetRun) finish() (wrong []string) {
	for name := range f.living {
		f.heal(name)
	}
	f.works(0)
	f.passSlowly(time.Minute)
	time.Sleep(20 * time.Second)
	for range f.quits {
		probe.Fish(f.clerk, func(*messages.Closed) bool { return true })
	}
	wrong = append(wrong, f.lost(f.sought)...)
	wrong = append(wrong, f.usurped()...)
	wrong = append(wrong, f.jumps()...)
	if f.sought.IsZero() {
		wrong = append(append(wrong, f.disorder()...), f.early()...)
	}
	if u := f.unbalanced(); u != "" {
		wrong = append(wrong, u)
	}
	moves := f.moves()
	f.passSlowly(10 * time.Second)
	if f.moves() != moves {
		wrong = append(wrong, "shards move though nothing happens")
	}
	return wrong[:min(len(wrong), 20)]
}
