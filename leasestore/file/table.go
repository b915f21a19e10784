package file

import (
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/protokinesis/protokinesis/leasestore"
)

// Names of the buckets and of the format's key.
var (
	bucketMeta    = []byte("meta")
	bucketLeases  = []byte("leases")
	bucketStreams = []byte("streams")
	keyFormat     = []byte("format")
)

// table reads and writes rows within one transaction.
type table struct{ tx *bolt.Tx }

// lease returns the row, or a zero Lease when there is none.
func (t table) lease(key leasestore.Key) (leasestore.Lease, error) {
	b := t.tx.Bucket(bucketLeases).Bucket(streamKey(key.Stream))
	if b == nil {
		return leasestore.Lease{}, nil
	}
	value := b.Get([]byte(key.Shard))
	if value == nil {
		return leasestore.Lease{}, nil
	}
	return decodeLease(key, value)
}

func (t table) putLease(lease leasestore.Lease) error {
	name, shard := streamKey(lease.Stream), []byte(lease.Shard)
	if err := checkKeySize(name, shard); err != nil {
		return err
	}
	b, err := t.tx.Bucket(bucketLeases).CreateBucketIfNotExists(name)
	if err != nil {
		return err
	}
	value, err := encodeLease(lease)
	if err != nil {
		return err
	}
	return b.Put(shard, value)
}

// deleteLease removes a row, and the stream's bucket with the last of them.
func (t table) deleteLease(key leasestore.Key) error {
	leases := t.tx.Bucket(bucketLeases)
	b := leases.Bucket(streamKey(key.Stream))
	if err := b.Delete([]byte(key.Shard)); err != nil {
		return err
	}
	if first, _ := b.Cursor().First(); first != nil {
		return nil
	}
	return leases.DeleteBucket(streamKey(key.Stream))
}

// list returns the stream's leases in the order of their keys, which is that of the shard ids.
func (t table) list(stream leasestore.StreamID) ([]leasestore.Lease, error) {
	list := []leasestore.Lease{}
	b := t.tx.Bucket(bucketLeases).Bucket(streamKey(stream))
	if b == nil {
		return list, nil
	}
	err := b.ForEach(func(shard, value []byte) error {
		lease, err := decodeLease(leasestore.Key{Stream: stream, Shard: string(shard)}, value)
		list = append(list, lease)
		return err
	})
	return list, err
}

// leasedStreams returns the streams that have leases.
func (t table) leasedStreams() ([]leasestore.StreamID, error) {
	var streams []leasestore.StreamID
	err := t.tx.Bucket(bucketLeases).ForEach(func(key, value []byte) error {
		if value != nil {
			return fmt.Errorf("%w: the entry %q among the streams' leases is not a bucket", ErrCorrupt, key)
		}
		stream, err := parseStreamKey(key)
		streams = append(streams, stream)
		return err
	})
	return streams, err
}

// state returns the stream's state, or a zero StreamState when there is none.
func (t table) state(stream leasestore.StreamID) (leasestore.StreamState, error) {
	value := t.tx.Bucket(bucketStreams).Get(streamKey(stream))
	if value == nil {
		return leasestore.StreamState{}, nil
	}
	return decodeState(stream, value)
}

func (t table) putState(state leasestore.StreamState) error {
	key := streamKey(state.Stream)
	if err := checkKeySize(key); err != nil {
		return err
	}
	value, err := encodeState(state)
	if err != nil {
		return err
	}
	return t.tx.Bucket(bucketStreams).Put(key, value)
}

func (t table) states() ([]leasestore.StreamState, error) {
	var states []leasestore.StreamState
	err := t.tx.Bucket(bucketStreams).ForEach(func(key, value []byte) error {
		stream, err := parseStreamKey(key)
		if err != nil {
			return err
		}
		state, err := decodeState(stream, value)
		states = append(states, state)
		return err
	})
	return states, err
}

func checkKeySize(keys ...[]byte) error {
	for _, key := range keys {
		if len(key) > bolt.MaxKeySize {
			return fmt.Errorf("%w: the key %q... has %d bytes, the file store takes %d",
				leasestore.ErrInvalid, key[:64], len(key), bolt.MaxKeySize)
		}
	}
	return nil
}
