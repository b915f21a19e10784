package main

import (
	"fmt"
	"strings"
	"time"
)

// demoResult is what the demo prints.
type demoResult struct {
	Published   int     `json:"published"`
	Delivered   int     `json:"delivered"`
	Acked       int     `json:"acked"`
	Lost        int     `json:"lost"`
	Duplicates  int     `json:"duplicates"`
	OutOfOrder  int     `json:"out_of_order"`
	ShardsStart int     `json:"shards_start"`
	ShardsEnd   int     `json:"shards_end"`
	Splits      int     `json:"splits"`
	Merges      int     `json:"merges"`
	Seconds     float64 `json:"seconds"`
	Nodes       int     `json:"nodes"`

	nodesResult

	Chaos *chaosResult `json:"chaos,omitempty"`
}

// finish prints the result.
func (d *demo) finish(took time.Duration) error {
	t, _ := d.ledger.now()
	r := demoResult{
		Published: t.published, Delivered: t.delivered, Acked: t.acked, Lost: t.lost,
		Duplicates: t.delivered - t.first - t.damaged, OutOfOrder: t.outOfOrder,
		ShardsStart: d.Shards, ShardsEnd: len(d.openShards()), Splits: d.splits, Merges: d.merges, Seconds: seconds(took),
		Nodes: d.Nodes,
	}
	if d.fleet != nil {
		r.nodesResult = d.fleet.result
	}
	if d.chaos != nil {
		r.Chaos = d.chaos.result(d.seed)
	}
	var err error
	if d.JSON {
		err = encodeJSON(d.app.stdout, r)
	} else {
		err = r.print(d.app)
	}
	switch {
	case err != nil:
		return err
	case t.damaged > 0:
		return fmt.Errorf("%d records came with a payload that nobody published", t.damaged)
	case r.Lost > 0 || r.OutOfOrder > 0:
		return fmt.Errorf("%d records lost, %d out of order", r.Lost, r.OutOfOrder)
	}
	return nil
}

func (r demoResult) print(a *app) error {
	if r.Chaos != nil {
		if err := r.Chaos.print(a); err != nil {
			return err
		}
	}
	if err := r.printNodes(a); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, `%d records published in %.1f s, %d delivered, %d acked
%d lost, %d duplicates, %d out of order
%s at the start, %d open at the end: %d split, %d merge
`, r.Published, r.Seconds, r.Delivered, r.Acked, r.Lost, r.Duplicates, r.OutOfOrder, shardCount(r.ShardsStart), r.ShardsEnd, r.Splits, r.Merges)
	return err
}

func shardCount(n int) string {
	if n == 1 {
		return "1 shard"
	}
	return fmt.Sprintf("%d shards", n)
}

// nodesResult is what a demo with several nodes tells besides; what was not measured is left out.
type nodesResult struct {
	Balanced *int     `json:"balanced,omitempty"`
	Moves    *int     `json:"moves,omitempty"`
	Failover *float64 `json:"failover_seconds,omitempty"`
	Handover *float64 `json:"handover_seconds,omitempty"`
	// Unsaved is how many records the node that was killed had handled since its checkpoints: there may be so many duplicates.
	Unsaved *int `json:"handled_since_checkpoint,omitempty"`
}

func (r demoResult) printNodes(a *app) error {
	if r.Nodes < 2 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d nodes", r.Nodes)
	if r.Failover != nil {
		fmt.Fprintf(&b, ", one was killed, and its shards were read again after %.1f s", *r.Failover)
	}
	if r.Handover != nil {
		fmt.Fprintf(&b, ", one left, and its shards were read again after %.1f s", *r.Handover)
	}
	if r.Balanced != nil && r.Moves != nil {
		fmt.Fprintf(&b, "; %d moves, %s between the most and the fewest at the end", *r.Moves, shardCount(*r.Balanced))
	}
	_, err := fmt.Fprintln(a.stdout, b.String())
	return err
}
