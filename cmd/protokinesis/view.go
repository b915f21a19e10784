package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/protokinesis/protokinesis/messages"
)

// view shows how the demo goes: a table that is redrawn in place on a terminal, else a line now and then; nothing with --json.
type view struct {
	demo   *demo
	screen *screen // nil: not on a terminal
	every  time.Duration

	cancel context.CancelFunc
	done   chan struct{}
}

const (
	redrawEvery = 150 * time.Millisecond
	lineEvery   = time.Second
	statusWait  = time.Second
)

func (d *demo) newView() *view {
	v := &view{demo: d, every: lineEvery}
	if f := terminal(d.app.stderr); f != nil && !d.JSON && !d.Chaos && d.Nodes == 1 {
		v.screen, v.every = &screen{out: f}, redrawEvery
	}
	return v
}

// logger is a logger that does not spoil the picture.
func (v *view) logger(a *app) *slog.Logger {
	if v.screen == nil {
		return a.log
	}
	return slog.New(slog.NewTextHandler(v.screen, &slog.HandlerOptions{Level: logLevel(a.LogLevel)}))
}

// begin shows it from now on until end.
func (v *view) begin() {
	if v.demo.JSON {
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(v.demo.app.ctx))
	v.cancel, v.done = cancel, make(chan struct{})
	go func() {
		defer close(v.done)
		ticker := time.NewTicker(v.every)
		defer ticker.Stop()
		for {
			v.show(ctx)
			select {
			case <-ticker.C:
			case <-ctx.Done():
				v.show(context.WithoutCancel(ctx))
				return
			}
		}
	}()
}

// end shows it a last time.
func (v *view) end() {
	if v.cancel != nil {
		v.cancel()
		<-v.done
		v.cancel = nil
	}
}

func (v *view) show(ctx context.Context) {
	t, _ := v.demo.ledger.now()
	if v.screen == nil {
		_, _ = fmt.Fprintf(v.demo.app.stderr, "%d of %d records published, %d acked, %d open shards\n",
			t.published, v.demo.Records, t.acked, len(v.demo.openShards()))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	status, err := v.demo.node.Status(ctx)
	if err != nil || len(status.GetSubscriptions()) == 0 {
		return
	}
	width, height := terminalSize(v.screen.out)
	v.screen.draw(frame(status.GetSubscriptions()[0].GetShards(), t, v.demo.Records, width, height))
}

// frame is the picture: the shards, as many as there is room for, and the bar.
func frame(shards []*messages.ShardStatus, t tally, records, width, height int) string {
	const around = 6 // lines besides the shards: header, rule, what is left out, blank, bar, numbers
	hidden := max(0, len(shards)-max(1, height-around))
	w := newTable("shard", "range", "state", "lag", "in flight", "checkpoint")
	rightAligned(w, "lag", "in flight")
	w.SetAllowedRowLength(width)
	for _, s := range shards[hidden:] { // the youngest are the last
		w.AppendRow(table.Row{
			s.GetShardId(), hashRange(s.GetStartingHashKey(), s.GetEndingHashKey()), stateName(s.GetState()),
			lag(s.GetMillisBehindLatest()), s.GetInFlight(), shortCheckpoint(s.GetCheckpoint()),
		})
	}
	var b strings.Builder
	b.WriteString(w.Render())
	if hidden > 0 {
		fmt.Fprintf(&b, "\n%d older shards are not shown", hidden)
	}
	fmt.Fprintf(&b, "\n\n%s\n%d published, %d acked, %d out of order\n", bar(t.acked, t.published, records, width), t.published, t.acked, t.outOfOrder)
	return b.String()
}

// bar shows how much is acked (full), published (half) and to be done.
func bar(acked, published, records, width int) string {
	percent := fmt.Sprintf(" %3d %%", acked*100/records)
	cells := max(10, min(width-1, 90)-len(percent))
	full := min(cells, acked*cells/records)
	half := max(0, min(cells, published*cells/records)-full)
	return strings.Repeat("█", full) + strings.Repeat("▒", half) + strings.Repeat("░", cells-full-half) + percent
}

func stateName(s messages.ShardState) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(s.String(), "SHARD_STATE_"), "_", " "))
}

func lag(millis int64) string {
	if millis < 0 {
		return "-"
	}
	return (time.Duration(millis) * time.Millisecond).String()
}

// shortCheckpoint keeps the end of a sequence number, where it moves.
func shortCheckpoint(c string) string {
	const tail = 14
	switch {
	case c == "":
		return "-"
	case len(c) > 2*tail && !strings.Contains(c, "_"):
		return "…" + c[len(c)-tail:]
	default:
		return c
	}
}

// screen draws a picture over the one before, on a terminal. What is written to it otherwise, the log, goes above.
type screen struct {
	out *os.File

	mu   sync.Mutex
	last string
}

func (s *screen) draw(picture string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	s.erase(&b)
	b.WriteString(picture)
	s.last = picture
	_, _ = s.out.Write(b.Bytes())
}

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	s.erase(&b)
	b.Write(p)
	b.WriteString(s.last)
	if _, err := s.out.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// erase goes back to where the picture begins and clears the rest of the screen.
func (s *screen) erase(to io.Writer) {
	if n := strings.Count(s.last, "\n"); n > 0 {
		_, _ = fmt.Fprintf(to, "\r\x1b[%dA\x1b[J", n)
	}
}
