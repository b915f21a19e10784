package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync"
)

// ledger knows what the demo published and checks what comes back. A payload is key/number/digest: the number counts the records
// of its key, and the digest is of the seed, the key and the number, so that a payload that was changed or mixed up is seen.
type ledger struct {
	seed uint64

	mu         sync.Mutex
	keys       []keyLedger
	published  int
	first      int // records delivered, each counted once
	delivered  int // deliveries
	acked      int
	outOfOrder int
	damaged    int
	missing    int           // published and not delivered
	changed    chan struct{} // closed and replaced with every change that someone may wait for
}

type keyLedger struct {
	published int
	seen      []bool
	highest   int // number of the latest first delivery; 0: none
}

func newLedger(seed uint64, keys int) *ledger {
	return &ledger{seed: seed, keys: make([]keyLedger, keys), changed: make(chan struct{})}
}

func keyName(key int) string { return "key-" + strconv.Itoa(key) }

// payload is that of the number-th record of a key, from 1.
func (l *ledger) payload(key, number int) []byte {
	head := fmt.Sprintf("%s/%d/", keyName(key), number)
	digest := sha256.Sum256(fmt.Appendf(nil, "%d/%s", l.seed, head))
	return append([]byte(head), hex.EncodeToString(digest[:8])...)
}

// isPublished notes that the next record of a key is stored.
func (l *ledger) isPublished(key int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &l.keys[key]
	k.published++
	l.published++
	if k.published > len(k.seen) || !k.seen[k.published-1] {
		l.missing++ // else it was faster than the receipt
	}
	l.wake()
}

// isDelivered checks a record that has come.
func (l *ledger) isDelivered(partitionKey string, data []byte) {
	key, number, ok := l.parse(partitionKey, data)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delivered++
	if !ok {
		l.damaged++
		return
	}
	k := &l.keys[key]
	for len(k.seen) < number {
		k.seen = append(k.seen, false)
	}
	if k.seen[number-1] {
		return
	}
	k.seen[number-1] = true
	l.first++
	if number <= k.published {
		l.missing--
	}
	if number < k.highest {
		l.outOfOrder++
	}
	k.highest = number
	l.wake()
}

// isAcked notes that the record's handler is about to ack it.
func (l *ledger) isAcked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked++
	l.wake()
}

func (l *ledger) parse(partitionKey string, data []byte) (key, number int, ok bool) {
	parts := bytes.Split(data, []byte("/"))
	if len(parts) != 3 || string(parts[0]) != partitionKey {
		return 0, 0, false
	}
	key, err := strconv.Atoi(string(bytes.TrimPrefix(parts[0], []byte("key-"))))
	if err != nil || key < 0 || key >= len(l.keys) {
		return 0, 0, false
	}
	number, err = strconv.Atoi(string(parts[1]))
	if err != nil || number < 1 || !bytes.Equal(data, l.payload(key, number)) {
		return 0, 0, false
	}
	return key, number, true
}

func (l *ledger) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// tally is the ledger in numbers.
type tally struct {
	published, delivered, first, acked, lost, outOfOrder, damaged int
}

// now returns the numbers, and a channel that is closed when there are others.
func (l *ledger) now() (tally, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return tally{
		published: l.published, delivered: l.delivered, first: l.first, acked: l.acked, lost: l.missing, outOfOrder: l.outOfOrder,
		damaged: l.damaged,
	}, l.changed
}
