package dynamodb

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/protokinesis/protokinesis/leasestore"
)

// List implements leasestore.Store.
func (s *Store) List(ctx context.Context, stream leasestore.StreamID) ([]leasestore.Lease, error) {
	found, err := s.lookAt(ctx, stream)
	if err != nil {
		return nil, err
	}
	return s.listed(found, stream)
}

// View implements leasestore.Store.
func (s *Store) View(ctx context.Context, stream leasestore.StreamID) (leasestore.View, error) {
	found, err := s.lookAt(ctx, stream)
	if err != nil {
		return leasestore.View{}, err
	}
	view := leasestore.View{Planner: found.planner, Members: slices.Clone(found.members)}
	if view.Leases, err = s.listed(found, stream); err != nil {
		return leasestore.View{}, err
	}
	for n := range view.Members {
		view.Members[n].Streams = slices.Clone(view.Members[n].Streams)
	}
	slices.SortFunc(view.Members, func(a, b leasestore.Member) int { return cmp.Compare(a.ID, b.ID) })
	key, err := s.keys.state(stream)
	if err != nil {
		return leasestore.View{}, err
	}
	view.State.Stream = stream
	if row, saved := found.states[key]; saved {
		if row.Stream != stream {
			return leasestore.View{}, s.failed("view", elsewhere(key, row.Stream.String(), stream))
		}
		view.State = row.StreamState
	}
	return view, nil
}

func (s *Store) listed(found *snapshot, stream leasestore.StreamID) ([]leasestore.Lease, error) {
	leases, err := found.of(s.keys, stream)
	if err != nil {
		return nil, s.failed("list", err)
	}
	return leases, nil
}

// Dates implements leasestore.Dater.
func (s *Store) Dates(ctx context.Context, stream leasestore.StreamID) (map[string]time.Time, error) {
	found, err := s.lookAt(ctx, stream)
	if err != nil {
		return nil, err
	}
	dates := map[string]time.Time{}
	for _, row := range found.rows(s.keys, stream) {
		if date, ok := row.date(); ok && row.isOf(stream) {
			dates[row.shard] = date
		}
	}
	return dates, nil
}

// Streams implements leasestore.Store. Rows that KCL alone has written do not say in which region a stream is; it is taken for that of the table.
func (s *Store) Streams(ctx context.Context) ([]leasestore.StreamState, error) {
	found, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	states := map[leasestore.StreamID]leasestore.StreamState{}
	for _, row := range found.states {
		states[row.Stream] = row.StreamState
	}
	for prefix, rows := range found.leases {
		for _, stream := range s.leased(found, prefix, rows) {
			if _, saved := states[stream]; !saved {
				states[stream] = leasestore.StreamState{Stream: stream}
			}
		}
	}
	return slices.SortedFunc(maps.Values(states), func(a, b leasestore.StreamState) int {
		return cmp.Compare(a.Stream.String(), b.Stream.String())
	}), nil
}

// leased are the streams that leases with that prefix are of: one, as far as known.
func (s *Store) leased(found *snapshot, prefix string, rows []shardRow) []leasestore.StreamID {
	recorded := map[leasestore.StreamID]bool{}
	for _, row := range rows {
		if stream, err := parseStreamID(row.recorded); err == nil {
			recorded[stream] = true
		}
	}
	for _, row := range found.states {
		if s.keys.single || s.keys.stream(row.Stream) == prefix {
			recorded[row.Stream] = true
		}
	}
	if len(recorded) > 0 {
		return slices.Collect(maps.Keys(recorded))
	}
	if s.keys.single {
		if stream, is := s.bound.get(); is {
			return []leasestore.StreamID{stream}
		}
		return nil // nothing says which
	}
	stream, _ := s.keys.parseStream(prefix)
	stream.Name = s.located(stream.Name)
	return []leasestore.StreamID{stream}
}

// located puts the client's region into an ARN without one.
func (s *Store) located(name string) string {
	client, ok := s.client.(interface{ Options() sdk.Options })
	rest, bare := strings.CutPrefix(name, "arn:aws:kinesis::")
	if !ok || !bare {
		return name
	}
	region, partition := client.Options().Region, "aws"
	for _, special := range []string{"cn", "us-gov"} {
		if strings.HasPrefix(region, special+"-") {
			partition = "aws-" + special
		}
	}
	return "arn:" + partition + ":kinesis:" + region + ":" + rest
}
