package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/protokinesis/protokinesis/actors"
	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/dynamodb"
	"github.com/protokinesis/protokinesis/leasestore/file"
)

type leasesCmd struct {
	LeaseStore storeName `required:"" placeholder:"STORE" help:"The lease store: file:PATH or dynamodb:TABLE."`
	tableFlags
	Stream streamName `placeholder:"NAME" help:"List the leases of this stream alone; name or ARN, which Kinesis is asked for. With --single-stream it may be needed: KCL does not write down which stream a table is of."`
	Lag    bool       `help:"Ask Kinesis how long the first record after each checkpoint has been there: two calls per shard."`
	Output string     `enum:"text,json" default:"text" placeholder:"FORM" help:"text (tables) or json (an object) (${default})."`
}

// Help is shown below the flags.
func (leasesCmd) Help() string {
	return "Nothing is changed. A lease that is being handed over is shown with both nodes, OWNER → NEXT. The age is the time since a lease was last written, by its writer's clock; files do not keep it. A node that died is listed until another has missed it for ten times --lease-ttl. In a file an owner is listed when a consumer ended without releasing its leases, by a crash; while a consumer has the file open it can't be read."
}

// Validate is called by kong before anything is done.
func (l *leasesCmd) Validate() error {
	if l.LeaseStore == (storeName{}) {
		return errors.New("--lease-store: what is in memory can't be listed: file:PATH or dynamodb:TABLE")
	}
	return l.check(l.LeaseStore)
}

// leaseRow is a lease as JSON; what is null is not known.
type leaseRow struct {
	Stream     string   `json:"stream"`
	Created    int64    `json:"stream_created_unix_millis"`
	Shard      string   `json:"shard"`
	Owner      string   `json:"owner"`
	Next       string   `json:"next"`
	Counter    int64    `json:"counter"`
	Age        *float64 `json:"age_seconds"`
	Checkpoint string   `json:"checkpoint"`
	Seek       int64    `json:"seek"`
	Lag        *int64   `json:"lag_millis"`

	lease leasestore.Lease
}

// nodeRow is a member as JSON.
type nodeRow struct {
	ID      string   `json:"id"`
	Address string   `json:"address"`
	Leaving bool     `json:"leaving"`
	Streams []string `json:"streams"`
}

// leaseList is all that is listed.
type leaseList struct {
	Leases []leaseRow `json:"leases"`
	Nodes  []nodeRow  `json:"nodes"`
}

// Run implements the command.
func (l *leasesCmd) Run(a *app) error {
	list, err := l.read(a)
	if err == nil && l.Lag {
		err = a.addLags(list.Leases)
	}
	switch {
	case err != nil:
		return a.unlessInterrupted(err)
	case l.Output == formatJSON:
		return encodeJSON(a.stdout, list)
	default:
		return list.print(a.stdout)
	}
}

func (l *leasesCmd) read(a *app) (*leaseList, error) {
	only, err := l.only(a)
	if err != nil {
		return nil, err
	}
	list := &leaseList{Leases: []leaseRow{}, Nodes: []nodeRow{}}
	if l.LeaseStore.path != "" {
		leases, err := file.Read(l.LeaseStore.path)
		for _, lease := range leases {
			if only == nil || lease.Stream == *only {
				list.add(lease)
			}
		}
		return list, err
	}
	store, closeStore, err := a.openTable(l.LeaseStore, &l.tableFlags, dynamodb.NeverCreate())
	if err != nil {
		return nil, err
	}
	err = list.readStore(a.ctx, store, only)
	return list, errors.Join(explainTable(l.LeaseStore.table, err), closeStore())
}

func explainTable(table string, err error) error {
	if missing, is := errors.AsType[*types.ResourceNotFoundException](err); is {
		return fmt.Errorf("lease table %s does not exist: %w (check its name, the region and --dynamodb-endpoint)", table, missing)
	}
	return err
}

// only is the one stream to list, or nil.
func (l *leasesCmd) only(a *app) (*leasestore.StreamID, error) {
	if l.Stream == "" {
		return nil, nil //nolint:nilnil // all
	}
	cfg, closeIdle, err := a.awsConfig()
	if err != nil {
		return nil, err
	}
	defer closeIdle()
	id, err := identify(a.ctx, actors.NewClients(cfg).Control, l.Stream)
	if err != nil {
		return nil, explainStream(l.Stream, err)
	}
	return &id, nil
}

// readStore reads the leases of one stream, or of all that the store knows of, and the nodes.
func (list *leaseList) readStore(ctx context.Context, store leasestore.Store, only *leasestore.StreamID) error {
	var streams []leasestore.StreamID
	if only != nil {
		streams = append(streams, *only)
	} else {
		states, err := store.Streams(ctx)
		if err != nil {
			return err
		}
		for _, state := range states {
			streams = append(streams, state.Stream)
		}
	}
	for i, stream := range streams {
		view, err := store.View(ctx, stream)
		if err != nil {
			return err
		}
		dates, err := datesOf(ctx, store, stream)
		if err != nil {
			return err
		}
		now := time.Now()
		for _, lease := range view.Leases {
			row := list.add(lease)
			if at, known := dates[lease.Shard]; known {
				age := seconds(max(0, now.Sub(at)))
				row.Age = &age
			}
		}
		if i == 0 { // they are those of all streams
			list.addNodes(view.Members)
		}
	}
	return nil
}

// datesOf is when leases were written, if the store knows.
func datesOf(ctx context.Context, store leasestore.Store, stream leasestore.StreamID) (map[string]time.Time, error) {
	dater, ok := store.(leasestore.Dater)
	if !ok {
		return nil, nil
	}
	return dater.Dates(ctx, stream)
}

func (list *leaseList) add(l leasestore.Lease) *leaseRow {
	list.Leases = append(list.Leases, leaseRow{
		Stream: l.Stream.Name, Created: l.Stream.CreatedMillis, Shard: l.Shard, Owner: l.Owner, Next: l.Next, Counter: l.Counter,
		Checkpoint: l.Checkpoint.String(), Seek: l.Seek, lease: l,
	})
	return &list.Leases[len(list.Leases)-1]
}

func (list *leaseList) addNodes(members []leasestore.Member) {
	for _, m := range members {
		row := nodeRow{ID: m.ID, Address: m.Address, Leaving: m.Leaving, Streams: []string{}}
		for _, s := range m.Streams {
			row.Streams = append(row.Streams, s.Name)
		}
		list.Nodes = append(list.Nodes, row)
	}
}
