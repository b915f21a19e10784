package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

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
	return "Opening the file proves that no process holds its leases, and frees those that one left behind by a crash: that is why no owners are listed. While a consumer has the file open it can't be read."
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
func (l *leasesCmd) Run(a *app) (err error) {
	if _, err := os.Stat(l.LeaseStore.path); err != nil {
		return fmt.Errorf("lease file: %w", err) // Open would make a new one
	}
	store, err := file.Open(l.LeaseStore.path)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := store.Close(); err == nil && closeErr != nil {
			err = closeErr
		}
	}()
	rows, err := listLeases(a.ctx, store)
	if err != nil {
		return err
	}
	if l.Output == formatJSON {
		return encodeJSON(a.stdout, rows)
	}
	return printLeases(a.stdout, rows)
}

func listLeases(ctx context.Context, store leasestore.Store) ([]leaseRow, error) {
	rows := []leaseRow{}
	streams, err := store.Streams(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range streams {
		leases, err := store.List(ctx, s.Stream)
		if err != nil {
			return nil, err
		}
		for _, l := range leases {
			rows = append(rows, leaseRow{
				Stream: l.Stream.Name, Created: l.Stream.CreatedMillis, Shard: l.Shard, Owner: l.Owner, Counter: l.Counter,
				Checkpoint: l.Checkpoint.String(), Seek: l.Seek,
			})
		}
	}
	return rows, nil
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
