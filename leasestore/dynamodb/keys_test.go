package dynamodb

import (
	"log/slog"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

const ordersARN = "arn:aws:kinesis:eu-west-1:111122223333:stream/orders"

func TestKeysAreKCLs(t *testing.T) {
	for _, c := range []struct {
		single        bool
		application   string
		name          string
		millis        int64
		shard, expect string
	}{
		{false, "", ordersARN, 1_700_000_000_000, "shardId-000000000007", "111122223333:orders:1700000000:shardId-000000000007"},
		{false, "", ordersARN, 1_700_000_000_120, "shardId-000000000007", "111122223333:orders:1700000000.120:shardId-000000000007"},
		{false, "", ordersARN, -1, "s", "111122223333:orders:-0.001:s"},
		{false, "", ordersARN, math.MinInt64, "s", "111122223333:orders:-9223372036854775.808:s"},
		{false, "", "arn:aws-us-gov:kinesis:us-gov-west-1:1:stream/a.b_c-d", 1000, "s", "1:a.b_c-d:1:s"},
		{false, "", ordersARN + "/consumer/c", 1000, "s", "protokinesis:arn%3Aaws%3Akinesis%3Aeu-west-1%3A111122223333%3Astream%2Forders%2Fconsumer%2Fc:1:s"},
		{false, "", "orders", 1000, "a:b", "protokinesis:orders:1:a:b"},
		{false, "app/1", "100%", 0, "s", "app%2F1/protokinesis:100%25:0:s"},
		{true, "", ordersARN, 1_700_000_000_000, "shardId-000000000007", "shardId-000000000007"},
		{true, "app", ordersARN, 1_700_000_000_000, "shardId-000000000007", "app/shardId-000000000007"},
		{true, "", ordersARN, 1_700_000_000_000, "shardId-x", "protokinesis-shard:shardId-x"},
	} {
		key, err := newKeys(c.application, c.single).lease(leasestore.Key{
			Stream: leasestore.StreamID{Name: c.name, CreatedMillis: c.millis}, Shard: c.shard,
		})
		require.NoError(t, err)
		require.Equal(t, c.expect, key)
	}
	for id, want := range map[string]string{
		"host-1.example.com:0e8400e2-9b41-41d4-a716-446655440000": "host-1.example.com:0e8400e2-9b41-41d4-a716-446655440000",
		"10.0.0.7:8090": "10.0.0.7:8090", "Leader": "protokinesis-member:Leader", "1:2": "protokinesis-member:1:2",
		"a/b": "protokinesis-member:a/b", "shardId-000000000000": "protokinesis-member:shardId-000000000000",
		"protokinesis-member:x": "protokinesis-member:protokinesis-member:x", "Migration3.0": "protokinesis-member:Migration3.0",
	} {
		key, err := newKeys("", false).member(id)
		require.NoError(t, err)
		require.Equal(t, want, key)
	}
}

// sameButRegion is the name without what a key does not hold.
func sameButRegion(name string) string {
	if arn := streamARN.FindStringSubmatch(name); arn != nil {
		return "arn:aws:kinesis::" + arn[1] + ":stream/" + arn[2]
	}
	return name
}

func FuzzLeaseKeysAreReversible(f *testing.F) {
	for _, name := range []string{ordersARN, ordersARN + "/consumer/c", "orders", "a:b%3A:1", "", "%", "111122223333:orders", "arn:aws:kinesis::1:stream/x"} {
		for _, millis := range []int64{0, 1, -1, 999, 1000, -1000, 1_700_000_000_123, math.MaxInt64, math.MinInt64} {
			f.Add(name, millis, "shardId-000000000000", "", false)
			f.Add(name, millis, "1:2/3", "app", true)
		}
	}
	f.Fuzz(func(t *testing.T, name string, millis int64, shard, application string, single bool) {
		k := newKeys(application, single)
		id := leasestore.StreamID{Name: name, CreatedMillis: millis}
		key, err := k.lease(leasestore.Key{Stream: id, Shard: shard})
		if err != nil {
			require.ErrorIs(t, err, leasestore.ErrInvalid)
			require.True(t, !utf8.ValidString(name) || !utf8.ValidString(shard) || shard == "" || len(name)+len(shard)+len(application) > 300)
			return
		}
		rest, own := k.own(key)
		require.True(t, own)
		stream, back, ok := k.parseLease(rest)
		require.True(t, ok, key)
		require.Equal(t, shard, back, key)
		if single {
			require.Empty(t, stream)
			return
		}
		require.Equal(t, k.stream(id), stream)
		got, ok := k.parseStream(stream)
		require.True(t, ok, key)
		require.Equal(t, leasestore.StreamID{Name: sameButRegion(name), CreatedMillis: millis}, got)
	})
}

// Whatever is read as a lease's key is the key of that lease, so that no row is two leases.
func FuzzLeaseKeysAreCanonical(f *testing.F) {
	for _, key := range []string{
		"1:x:1:s", "1:x:01:s", "1:x:1.000:s", "1:x:-0:s", "x:y:1:s", "1:a b:1:s", "protokinesis:a%3Ab:1:s", "protokinesis:a%3ab:1:s", "protokinesis::1:s",
		"protokinesis:arn%3Aaws%3Akinesis%3A%3A1%3Astream%2Fx:1:s", "shardId-000000000000", "shardId-", "protokinesis-shard:shardId-1", "1:x:1:", "Leader",
	} {
		f.Add(key, true)
		f.Add(key, false)
	}
	f.Fuzz(func(t *testing.T, key string, single bool) {
		k := newKeys("", single)
		stream, shard, ok := k.parseLease(key)
		if !ok || !utf8.ValidString(key) || len(key) > maxKey {
			return
		}
		id, ok := k.parseStream(stream)
		require.Equal(t, !single, ok)
		again, err := k.lease(leasestore.Key{Stream: id, Shard: shard})
		require.NoError(t, err)
		require.Equal(t, key, again)
	})
}

// Rows of different kinds, streams, members and applications never share a key.
func FuzzKeysStayApart(f *testing.F) {
	for _, id := range []string{"node-1", "1:x:1", "1:x:1:s", "protokinesis:x:1:s", "protokinesis-stream:1:x:1", "shardId-000000000000", "a/1:x:1:s", "a/b", "b"} {
		f.Add("arn:aws:kinesis:r:1:stream/x", int64(1000), "s", id, "a", "a/b")
		f.Add("x", int64(1000), "shardId-000000000000", id, "", "a")
		f.Add("arn:aws:kinesis:r:1:stream/x", int64(1000), "a/b", id, "", "shardId-")
	}
	f.Fuzz(func(t *testing.T, name string, millis int64, shard, id, one, two string) {
		seen := map[string]string{}
		note := func(key string, err error, what string) {
			if err != nil {
				return
			}
			if other, is := seen[key]; is && other != what {
				t.Errorf("%q is the key of %s and of %s", key, other, what)
			}
			seen[key] = what
		}
		stream := leasestore.StreamID{Name: name, CreatedMillis: millis}
		for _, application := range []string{one, two} {
			for _, single := range []bool{false, true} {
				k := newKeys(application, single)
				key, err := k.lease(leasestore.Key{Stream: stream, Shard: shard})
				if single {
					note(key, err, "a bare lease of "+application)
				} else {
					note(key, err, "a lease of "+application)
				}
				key, err = k.state(stream)
				note(key, err, "a stream of "+application)
				key, err = k.member(id)
				if id != "" && utf8.ValidString(id) {
					note(key, err, "a member of "+application)
				}
				if rest, own := k.own(key); err == nil && own {
					require.Equal(t, id, k.parseMember(rest))
				}
			}
		}
	})
}

// Whatever a row holds, it is decoded to what can be stored, or refused; nothing panics.
func FuzzDecodeRow(f *testing.F) {
	f.Add("k", "owner", "next", "5", "49590338271490256608559692538361571095921575989136588898", "3", "", "s@1", uint64(0))
	f.Add("1:x:1:s", "a", "", "0", "LATEST", "0", "AT_TIMESTAMP@5", "s@x", uint64(0x2222))
	f.Add("Leader", "a", "a", "-1", "AT_TIMESTAMP", "0", "AT_TIMESTAMP@5", "@", uint64(0x1234567812345678))
	f.Add("m", "", "", "9223372036854775807", "12", "1", "<12:2", "", uint64(0xffffffffffffffff))
	f.Fuzz(func(t *testing.T, key, owner, next, counter, checkpoint, sub, exact, stream string, kinds uint64) {
		i := item{attrKey: text(key)}
		for attribute, value := range map[string]string{
			attrOwner: owner, attrHandoffOwner: next, attrCheckpoint: checkpoint, ownExact: exact, ownStream: stream, ownStart: exact,
			ownWritten: counter + "@" + sub, attrLeader: owner, attrLeaderPeriod: counter, ownAddress: stream,
		} {
			i[attribute] = text(value)
		}
		for attribute, value := range map[string]string{
			attrCounter: counter, attrSub: sub, ownSeek: counter, ownVersion: sub, ownBeat: counter, attrUpdated: sub, ownPeriod: counter,
		} {
			i[attribute] = digits(value)
		}
		for n, attribute := range []string{
			attrOwner, attrHandoffOwner, attrCheckpoint, ownExact, ownStream, attrCounter, attrSub, ownSeek, ownVersion, ownBeat, attrParents, ownStreams,
			attrEntity, attrUpdated, ownPeriod, attrLeaderPeriod,
		} {
			if value, change := odd(kinds>>(4*n)&15, stream); change {
				i[attribute] = value
			}
			if i[attribute] == nil {
				delete(i, attribute)
			}
		}
		if row, err := decodeLease(i); err == nil {
			require.Positive(t, row.lease.Counter)
			require.True(t, row.lease.Next == "" || row.lease.Next != row.lease.Owner)
			back, err := leasestore.ParseCheckpoint(row.lease.Checkpoint.String())
			require.NoError(t, err)
			require.Equal(t, row.lease.Checkpoint, back)
			_, _ = row.date()
		}
		for _, entity := range []types.AttributeValue{i[attrEntity], nil, text(entityLease), text(entityStream), text(entityMember), text(entityLeader)} {
			if delete(i, attrEntity); entity != nil {
				i[attrEntity] = entity
			}
			for _, k := range []keys{newKeys("", false), newKeys("", true), newKeys(strings.TrimSuffix(key, "/"), false)} {
				s := &Store{keys: k, log: slog.New(slog.DiscardHandler)}
				found := newSnapshot()
				s.sort(found, i)
				for _, rows := range found.leases {
					require.Len(t, rows, 1)
				}
			}
		}
	})
}

// odd is a value of a type that an attribute may not have.
func odd(kind uint64, s string) (value types.AttributeValue, change bool) {
	switch kind {
	case 1:
		return nil, true
	case 2:
		return &types.AttributeValueMemberNULL{Value: true}, true
	case 3:
		return text(s), true
	case 4:
		return digits(s), true
	case 5:
		return flag(true), true
	case 6:
		return &types.AttributeValueMemberSS{Value: []string{s, "z", "a"}}, true
	case 7:
		return &types.AttributeValueMemberL{Value: []types.AttributeValue{text(s), digits("1")}}, true
	case 8:
		return &types.AttributeValueMemberL{Value: []types.AttributeValue{text(s)}}, true
	case 9:
		return &types.AttributeValueMemberB{Value: []byte(s)}, true
	case 10:
		return &types.AttributeValueMemberM{}, true
	}
	return nil, false
}
