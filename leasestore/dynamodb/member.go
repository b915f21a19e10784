package dynamodb

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/protokinesis/protokinesis/leasestore"
)

const leaderKey = "Leader"

const (
	// KCL workers show a sign of life every 30 s, and are given leases for 60 s after the last.
	workerPeriod = 75 * time.Second
	// A member that leaves looks to a KCL leader like one that was silent for longer than that, so that it is given nothing more.
	leavingFor = 5 * time.Minute
)

// Beat implements leasestore.Store. To a KCL leader it is the row of a worker without metrics of its own, who is given leases by their throughput.
func (s *Store) Beat(ctx context.Context, member leasestore.Member) (leasestore.Member, error) {
	next, err := leasestore.ApplyBeat(member)
	if err != nil {
		return leasestore.Member{}, err
	}
	key, err := s.keys.member(member.ID)
	if err != nil {
		return leasestore.Member{}, err
	}
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return leasestore.Member{}, err
	}
	defer cancel()
	what := "beat of member " + member.ID
	_, _, refused, err := s.update(ctx, key, s.member(next), what)
	if err != nil {
		return leasestore.Member{}, err
	}
	if refused {
		return leasestore.Member{}, s.failed(what, fmt.Errorf("%w: the key %q is that of a row of another kind", leasestore.ErrInvalid, key))
	}
	return next, nil
}

// member is the write of a member's row, which leaves nothing of ours that was there before.
func (s *Store) member(m leasestore.Member) *update {
	u := newUpdate()
	u.require(either(u.absent(attrKey), u.equals(attrEntity, text(entityMember))))
	seen := time.Now()
	if m.Leaving {
		seen = seen.Add(-leavingFor)
	}
	u.put(attrEntity, text(entityMember))
	u.put(attrUpdated, number(seen.Unix()))
	u.put(ownBeat, number(m.Beat))
	u.putText(ownAddress, m.Address)
	u.putText(ownBroker, m.Broker)
	u.putText(ownSystem, m.System)
	u.putText(ownApplication, s.config.application)
	putFlag(u, ownLeaving, m.Leaving)
	putFlag(u, ownAllStreams, m.AllStreams)
	if m.Period != 0 {
		u.put(ownPeriod, number(m.Period.Milliseconds()))
	} else {
		u.drop(ownPeriod)
	}
	streams := make([]types.AttributeValue, 0, len(m.Streams))
	for _, stream := range m.Streams {
		streams = append(streams, text(stream.String()))
	}
	u.put(ownStreams, &types.AttributeValueMemberL{Value: streams})
	return u
}

func putFlag(u *update, attribute string, b bool) {
	if b {
		u.put(attribute, flag(true))
		return
	}
	u.drop(attribute)
}

// Forget implements leasestore.Store. The row of a KCL worker is left to KCL, which removes it after a day.
func (s *Store) Forget(ctx context.Context, member leasestore.Member) error {
	what := "forget member " + member.ID
	key, err := s.keys.member(member.ID)
	if err != nil {
		return err
	}
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	for range maxBases {
		u := newUpdate()
		u.require(u.equals(ownBeat, number(member.Beat)))
		_, err := s.client.DeleteItem(ctx, u.deletion(s.table, key))
		if err == nil {
			return nil
		}
		old, _, err := s.refusal(ctx, key, what, err)
		if err != nil {
			return err
		}
		if old[ownBeat] == nil {
			return nil // it is gone, or not ours
		}
		stored, err := decodeMember(member.ID, old)
		if err != nil {
			return s.failed(what, corrupt(key, err))
		}
		if err := leasestore.ApplyForget(stored, member); err != nil {
			return err
		}
	}
	return s.failed(what, errRestless)
}

func (s *Store) sortMember(found *snapshot, key string, i item) error {
	member, err := decodeMember(s.keys.parseMember(key), i)
	if err != nil {
		return corrupt(key, err)
	}
	found.members = append(found.members, member)
	return nil
}

// decodeMember reads a member's row, or that of a KCL worker, which has no beat of ours.
func decodeMember(id string, i item) (leasestore.Member, error) {
	d := decoder{item: i}
	if i[ownBeat] == nil {
		m := leasestore.Member{ID: id, Beat: d.number(attrUpdated), Period: workerPeriod, AllStreams: true}
		return m, d.err
	}
	m := leasestore.Member{
		ID: id, Beat: d.number(ownBeat), Leaving: d.flag(ownLeaving), Address: d.text(ownAddress), Broker: d.text(ownBroker),
		System: d.text(ownSystem), Period: time.Duration(d.number(ownPeriod)) * time.Millisecond, AllStreams: d.flag(ownAllStreams),
	}
	for _, name := range d.list(ownStreams) {
		stream, err := parseStreamID(name)
		if err != nil {
			return m, fmt.Errorf("%s: %w", ownStreams, err)
		}
		m.Streams = append(m.Streams, stream)
	}
	return m, d.err
}

// decodeLeader reads the row of the lock that the leader of a fleet of KCL workers holds.
func decodeLeader(i item) (leasestore.Planner, error) {
	d := decoder{item: i}
	owner, mark, period, gone := d.text(attrLeader), d.text(attrLeaderVersion), d.text(attrLeaderPeriod), d.text(attrLeaderGone)
	if d.err != nil || owner == "" || gone != "" {
		return leasestore.Planner{}, d.err
	}
	ms, err := strconv.ParseInt(period, 10, 64)
	if err != nil {
		return leasestore.Planner{}, fmt.Errorf("%s: %w", attrLeaderPeriod, err)
	}
	return leasestore.Planner{Owner: owner, Mark: mark, Period: time.Duration(ms) * time.Millisecond}, nil
}
