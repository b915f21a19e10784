package kinesistest

// The hot operations write CBOR by hand, as they do JSON.

// cbor renders the answer around the stored records. name is what the position after it is called.
func (a *pageAnswer) cbor(name string) ([][]byte, error) {
	members := 2
	if a.iterator != nil {
		members++
	}
	if len(a.children) > 0 {
		members++
	}
	head := appendItemHead(make([]byte, 0, 24), majorMap, members)
	head = appendItemHead(appendItemText(head, "Records"), majorArray, a.count)
	tail := appendItemText(make([]byte, 0, 192), "MillisBehindLatest")
	tail = appendItemHead(tail, majorUint, int(a.behind))
	if a.iterator != nil {
		tail = appendItemText(appendItemText(tail, name), a.iterator)
	}
	if len(a.children) > 0 {
		children, err := cborCodec.encode(a.children)
		if err != nil {
			return nil, err
		}
		tail = append(appendItemText(tail, "ChildShards"), children...)
	}
	parts := append(make([][]byte, 0, len(a.chunks)+2), head)
	return append(append(parts, a.chunks...), tail), nil
}

func (a *putRecordsAnswer) cbor() [][]byte {
	b := make([]byte, 0, 64+len(a.results)*128)
	b = appendItemHead(b, majorMap, 2)
	b = appendItemHead(appendItemText(b, "FailedRecordCount"), majorUint, a.failed)
	b = appendItemHead(appendItemText(b, "Records"), majorArray, len(a.results))
	for i := range a.results {
		r := &a.results[i]
		b = appendItemHead(b, majorMap, 2)
		if r.fail != nil {
			b = appendItemText(appendItemText(b, "ErrorCode"), r.fail.code)
			b = appendItemText(appendItemText(b, "ErrorMessage"), r.fail.message)
			continue
		}
		b = appendItemText(appendItemText(b, "SequenceNumber"), r.seq[:])
		b = appendItemText(appendItemText(b, "ShardId"), r.shard.id)
	}
	return [][]byte{b}
}
