package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/file"
)

type leasesCmd struct {
	LeaseStore storeName `required:"" placeholder:"file:PATH" help:"The lease file."`
	Output     string    `enum:"text,json" default:"text" placeholder:"FORM" help:"text (a table) or json (an array) (${default})."`
}

// Help is shown below the flags.
func (leasesCmd) Help() string {
	return "Nothing is changed. An owner is listed when a consumer ended without releasing its leases, by a crash. While a consumer has the file open it can't be read."
}

// Validate is called by kong before anything is done.
func (l *leasesCmd) Validate() error {
	if l.LeaseStore.path == "" {
		return errors.New("--lease-store: only a file can be listed: file:PATH")
	}
	return nil
}

// leaseRow is a lease as JSON.
type leaseRow struct {
	Stream     string `json:"stream"`
	Created    int64  `json:"stream_created_unix_millis"`
	Shard      string `json:"shard"`
	Owner      string `json:"owner"`
	Counter    int64  `json:"counter"`
	Checkpoint string `json:"checkpoint"`
	Seek       int64  `json:"seek"`
}

// Run implements the command.
func (l *leasesCmd) Run(a *app) error {
	leases, err := file.Read(l.LeaseStore.path)
	if err != nil {
		return err
	}
	rows := leaseRows(leases)
	if l.Output == formatJSON {
		return encodeJSON(a.stdout, rows)
	}
	return printLeases(a.stdout, rows)
}

func leaseRows(leases []leasestore.Lease) []leaseRow {
	rows := make([]leaseRow, 0, len(leases))
	for _, l := range leases {
		rows = append(rows, leaseRow{
			Stream: l.Stream.Name, Created: l.Stream.CreatedMillis, Shard: l.Shard, Owner: l.Owner, Counter: l.Counter,
			Checkpoint: l.Checkpoint.String(), Seek: l.Seek,
		})
	}
	return rows
}

func printLeases(to io.Writer, rows []leaseRow) error {
	t := newTable("stream", "shard", "owner", "counter", "checkpoint", "seek")
	rightAligned(t, "counter", "seek")
	for _, r := range rows {
		t.AppendRow(table.Row{streamName(r.Stream).bare(), r.Shard, orDash(r.Owner), r.Counter, orDash(r.Checkpoint), r.Seek})
	}
	_, err := fmt.Fprintln(to, t.Render())
	return err
}
