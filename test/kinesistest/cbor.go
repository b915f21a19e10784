package kinesistest

// The hot operations read and write CBOR by hand, as they do JSON. What a hand-written parser finds
// odd goes through the general decoder into the structs below.

type getRecordsCBOR struct {
	ShardIterator string
	Limit         *int64
	StreamARN     string
	DryRun        bool
}

func parseGetRecordsCBOR(body []byte) (request, error) {
	if r, ok := fastGetRecords(body); ok {
		return r, nil
	}
	var in getRecordsCBOR
	err := decodeCBOR(body, &in)
	return &getRecords{ShardIterator: []byte(in.ShardIterator), Limit: in.Limit, StreamARN: in.StreamARN, DryRun: in.DryRun}, err
}

func fastGetRecords(body []byte) (*getRecords, bool) {
	r := &getRecords{}
	in := items{b: body}
	in.members(func(name []byte) uint {
		switch string(name) {
		case "ShardIterator":
			r.ShardIterator = in.text()
			return 1
		case "StreamARN":
			r.StreamARN = string(in.text())
			return 2
		case "Limit":
			n := in.number()
			r.Limit = &n
			return 4
		case "DryRun":
			r.DryRun = in.boolean()
			return 8
		}
		return 0
	})
	return r, in.end()
}

type putEntryCBOR struct {
	Data            []byte
	PartitionKey    *string
	ExplicitHashKey *string
}

func (in *putEntryCBOR) entry() putEntry {
	p := putEntry{raw: in.Data, dataLen: len(in.Data)}
	p.key = bytesOf(in.PartitionKey)
	p.explicitHash = bytesOf(in.ExplicitHashKey)
	return p
}

// bytesOf returns nil for nil.
func bytesOf(text *string) []byte {
	if text == nil {
		return nil
	}
	return append([]byte{}, *text...)
}

// entryItem reads the members of a record; 0 is for any other member.
func (in *items) entryItem(p *putEntry, name []byte) uint {
	switch string(name) {
	case "Data":
		p.raw = in.str(majorBytes)
		p.dataLen = len(p.raw)
		return 1
	case "PartitionKey":
		p.key = in.text()
		return 2
	case "ExplicitHashKey":
		p.explicitHash = in.text()
		return 4
	}
	return 0
}

// refItem reads the members that name the stream; 0 is for any other member.
func (in *items) refItem(ref *streamRef, name []byte) uint {
	switch string(name) {
	case "StreamName":
		ref.StreamName = string(in.text())
		return 8
	case "StreamARN":
		ref.StreamARN = string(in.text())
		return 16
	}
	return 0
}

func parsePutRecordCBOR(body []byte) (request, error) {
	if r, ok := fastPutRecord(body); ok {
		return r, nil
	}
	var in struct {
		streamRefCBOR
		putEntryCBOR
		SequenceNumberForOrdering *string
		DryRun                    bool
	}
	err := decodeCBOR(body, &in)
	return &putRecord{ref: in.ref(), entry: in.entry(), ordering: bytesOf(in.SequenceNumberForOrdering), dryRun: in.DryRun}, err
}

func fastPutRecord(body []byte) (*putRecord, bool) {
	r := &putRecord{}
	in := items{b: body}
	in.members(func(name []byte) uint {
		if bit := in.entryItem(&r.entry, name); bit != 0 {
			return bit
		}
		if bit := in.refItem(&r.ref, name); bit != 0 {
			return bit
		}
		switch string(name) {
		case "SequenceNumberForOrdering":
			r.ordering = in.text()
			return 32
		case "DryRun":
			r.dryRun = in.boolean()
			return 64
		}
		return 0
	})
	return r, in.end()
}

// streamRefCBOR is streamRef with exported fields only, for embedding in anonymous structs.
type streamRefCBOR struct{ StreamName, StreamARN string }

func (r streamRefCBOR) ref() streamRef { return streamRef(r) }

func parsePutRecordsCBOR(body []byte) (request, error) {
	if r, ok := fastPutRecords(body); ok {
		return r, nil
	}
	var in struct {
		streamRefCBOR
		Records []putEntryCBOR
		DryRun  bool
	}
	err := decodeCBOR(body, &in)
	r := &putRecords{ref: in.ref(), entries: make([]putEntry, 0, len(in.Records)), dryRun: in.DryRun}
	for i := range in.Records {
		r.entries = append(r.entries, in.Records[i].entry())
	}
	return r, err
}

func fastPutRecords(body []byte) (*putRecords, bool) {
	r := &putRecords{}
	in := items{b: body}
	record := func() {
		if len(r.entries) == maxPutRecords { // an error: the general decoder counts them
			in.odd = true
			return
		}
		r.entries = append(r.entries, putEntry{})
		p := &r.entries[len(r.entries)-1]
		in.members(func(name []byte) uint { return in.entryItem(p, name) })
	}
	in.members(func(name []byte) uint {
		if bit := in.refItem(&r.ref, name); bit != 0 {
			return bit
		}
		switch string(name) {
		case "Records":
			r.entries = make([]putEntry, 0, guessRecords(body))
			in.each(majorArray, record)
			return 1
		case "DryRun":
			r.dryRun = in.boolean()
			return 2
		}
		return 0
	})
	return r, in.end()
}

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
