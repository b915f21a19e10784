//go:build unix

package test

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

var failoverRuns = flag.Int("failover.runs", 0, "how often TestFailover runs each case; 0: five times if it was asked for by its name, else once")

// failoverCase is something that happens to nodes that share a stream.
type failoverCase struct {
	name    string
	service string
	shards  int
	every   time.Duration // a record is published to each shard
	hints   bool
	run     func(f *failoverRun) []failoverFigure
}

// Lanes of cases: those of one lane follow each other, and lanes run side by side. Each has its own stream and lease table.
//
// What of kinesis-local there is answers some eighty calls a second, which the polls of 64 shards use up: what is measured is then how long a call
// waits there. So 64 shards are kinesalite's, and failoverAsked has the case that shows it on kinesis-local.
var failoverLanes = [][]failoverCase{
	{
		{"SIGSTOP of one of 3 nodes for 30 s", kinesisLocal, 12, 250 * time.Millisecond, true, failoverStop},
	},
	{
		{"20 s without the store", kinesisLocal, 12, 250 * time.Millisecond, false, failoverOutage},
	},
	{
		{"kill -9 of one of 3 nodes", kinesisLocal, 12, 250 * time.Millisecond, true, failoverKill},
		{"SIGTERM of one of 3 nodes, hints", kinesisLocal, 12, 250 * time.Millisecond, true, failoverLeave(2 * time.Second)},
		{"SIGTERM of one of 3 nodes", kinesisLocal, 12, 250 * time.Millisecond, false, failoverLeave(5 * time.Second)},
	},
	{
		{"3 to 4 nodes, hints", kinesalite, 64, 500 * time.Millisecond, true, failoverJoin(5 * time.Second)},
		{"3 to 4 nodes", kinesalite, 64, 500 * time.Millisecond, false, failoverJoin(15 * time.Second)},
		{"cold start of 5 nodes", kinesalite, 64, 500 * time.Millisecond, false, failoverCold},
	},
}

// failoverAsked runs too if TestFailover was asked for by its name.
var failoverAsked = []failoverCase{
	{"3 to 4 nodes, hints, kinesis-local", kinesisLocal, 64, 500 * time.Millisecond, true, failoverJoin(5 * time.Second)},
}

// L6, L7, L9, L11, L20: TestFailover measures what becomes of a stream when one of the nodes that share it dies, leaves, stands still or joins, or all lose the store:
//
//	go test ./test -run Failover -v
//
// The nodes are processes of protokinesis consume, with the default settings; the stream is kinesis-local's or kinesalite's, the lease table dynalite's. Each node goes to the table by
// a proxy of its own, which cuts it off, and puts every write of a lease in a log, after all that the node has printed before. A publisher sends records to all
// shards all the time. The nodes' clocks are up to two hours apart.
//
// What is checked is package failover's rules, and counts; times are printed only, with whether they are what they must be. 256 shards on 17 nodes are
// TestTheSeventeenthNodeGetsItsShare of package actors.
func TestFailover(t *testing.T) {
	runs, lanes := *failoverRuns, slices.Clone(failoverLanes)
	asked := strings.Contains(flag.Lookup("test.run").Value.String(), "Failover")
	if asked {
		last := len(lanes) - 1
		lanes[last] = slices.Concat(lanes[last], failoverAsked)
	}
	switch {
	case runs > 0:
	case asked:
		runs = 5
	default:
		runs = 1
	}
	program := buildProgram(t, t.TempDir())
	results := &failoverResults{}
	var running sync.WaitGroup
	for _, lane := range lanes {
		running.Go(func() {
			for number := range runs {
				for _, c := range lane {
					t.Run(fmt.Sprintf("%s/%d", c.name, number+1), func(t *testing.T) {
						f := newFailoverRun(t, program, c, number)
						results.add(c, c.run(f))
					})
				}
			}
		})
	}
	running.Wait()
	t.Logf("medians of %d runs\n%s", runs, results.table(lanes))
}

// failoverFigure is a figure of a run.
type failoverFigure struct {
	what  string
	value float64
	must  float64 // at most; negative: whatever it is
	time  bool
}

// seconds is a time, which must be at most so long, unless that is 0.
func seconds(what string, value, must time.Duration) failoverFigure {
	f := failoverFigure{what: what, value: value.Seconds(), must: must.Seconds(), time: true}
	if must == 0 {
		f.must = -1
	}
	return f
}

// count is a number, which must be at most so high, unless that is negative.
func count(what string, value, must int) failoverFigure {
	return failoverFigure{what: what, value: float64(value), must: float64(must)}
}

// failoverResults are the figures of all runs.
type failoverResults struct {
	mu   sync.Mutex
	rows []*failoverRow
}

// failoverRow is one figure of a case, in all its runs.
type failoverRow struct {
	of      failoverCase
	figures []failoverFigure
}

func (r *failoverResults) add(c failoverCase, figures []failoverFigure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, figure := range figures {
		i := slices.IndexFunc(r.rows, func(row *failoverRow) bool { return row.of.name == c.name && row.figures[0].what == figure.what })
		if i < 0 {
			i = len(r.rows)
			r.rows = append(r.rows, &failoverRow{of: c})
		}
		r.rows[i].figures = append(r.rows[i].figures, figure)
	}
}

// table is what all cases have shown.
func (r *failoverResults) table(lanes [][]failoverCase) string {
	out := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	out.SetStyle(style)
	out.SuppressTrailingSpaces()
	out.AppendHeader(table.Row{"case", "shards", "figure", "must", "median", "from … to", ""})
	out.SetColumnConfigs([]table.ColumnConfig{
		{Name: "shards", Align: text.AlignRight}, {Name: "must", Align: text.AlignRight}, {Name: "median", Align: text.AlignRight},
	})
	last := ""
	for _, lane := range lanes {
		for _, c := range lane {
			for _, row := range r.rows {
				if row.of.name != c.name {
					continue
				}
				name, shards := c.name, fmt.Sprint(c.shards)
				if name == last {
					name, shards = "", ""
				}
				last = c.name
				out.AppendRow(append(table.Row{name, shards}, row.cells()...))
			}
		}
	}
	return out.Render()
}

func (r *failoverRow) cells() table.Row {
	values, musts := make([]float64, len(r.figures)), make([]float64, len(r.figures))
	for i, f := range r.figures {
		values[i], musts[i] = f.value, f.must
	}
	f := r.figures[0]
	middle, must, verdict := median(values), median(musts), "ok"
	mustText := "≤ " + f.format(must)
	switch {
	case must < 0:
		mustText, verdict = "", ""
	case math.Round(middle*100) > math.Round(must*100):
		verdict = "MISSED"
	}
	return table.Row{f.what, mustText, f.format(middle), f.format(slices.Min(values)) + " … " + f.format(slices.Max(values)), verdict}
}

func (f failoverFigure) format(value float64) string {
	if f.time {
		return fmt.Sprintf("%.1f s", value)
	}
	return fmt.Sprint(value)
}
