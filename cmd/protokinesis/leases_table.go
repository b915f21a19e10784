package main

import (
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// print writes tables: the leases, and the nodes if there are any.
func (list *leaseList) print(to io.Writer) error {
	t := newTable("stream", "shard", "owner", "counter", "age", "checkpoint", "seek", "lag")
	rightAligned(t, "counter", "age", "seek", "lag")
	for _, r := range list.Leases {
		owner := orDash(r.Owner)
		if r.Next != "" {
			owner += " → " + r.Next
		}
		t.AppendRow(table.Row{
			streamName(r.Stream).bare(), r.Shard, owner, r.Counter, ageText(r.Age), orDash(r.Checkpoint), r.Seek, lagText(r.Lag),
		})
	}
	text := t.Render()
	if len(list.Nodes) > 0 {
		text += "\n\n" + nodesTable(list.Nodes)
	}
	_, err := fmt.Fprintln(to, text)
	return err
}

func nodesTable(rows []nodeRow) string {
	t := newTable("node", "address", "state")
	for _, r := range rows {
		state := "member"
		if r.Leaving {
			state = "leaving"
		}
		t.AppendRow(table.Row{r.ID, orDash(r.Address), state})
	}
	return t.Render()
}

func ageText(age *float64) string {
	if age == nil {
		return "-"
	}
	return time.Duration(*age * float64(time.Second)).Round(100 * time.Millisecond).String()
}

func lagText(millis *int64) string {
	if millis == nil {
		return "-"
	}
	return lag(*millis)
}
