package actors

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// arena is the memory of a page: its records' data, keys and sequence numbers, which lie together. All of it stays as long as one of the records does, so
// that is what is counted. Who has a record of it holds it: the unpacker those that wait, the window those that are not settled.
type arena struct {
	bytes   int
	holders int
	pinned  *int // bytes of all arenas of the window that are held
}

// newArena is a page's in this window; nobody holds it yet.
func (w *window) newArena(bytes int) *arena { return &arena{bytes: bytes, pinned: &w.pinned} }

func (a *arena) hold() {
	if a.holders == 0 {
		*a.pinned += a.bytes
	}
	a.holders++
}

func (a *arena) release() {
	if a.holders--; a.holders == 0 {
		*a.pinned -= a.bytes
	}
}

// arenaBytes is how large the arena of a page is.
func arenaBytes(records []types.Record) int {
	n := 0
	for i := range records {
		n += len(records[i].Data) + len(aws.ToString(records[i].PartitionKey)) + len(aws.ToString(records[i].SequenceNumber))
	}
	return n
}
