package kinesistest

// The hot operations read CBOR by hand, as they do JSON. What a hand-written parser finds
// odd goes through the general decoder into the structs below.

func parseGetRecordsCBOR(body []byte) (request, error) {
	if r, ok := fastGetRecords(body); ok {
		return r, nil
	}
	return slowGetRecords(body)
}

func slowGetRecords(body []byte) (*getRecords, error) {
	var in struct {
		ShardIterator *string
		Limit         *int64
		StreamARN     string
		DryRun        bool
	}
	err := decodeCBOR(body, &in)
	return &getRecords{ShardIterator: bytesOf(in.ShardIterator), Limit: in.Limit, StreamARN: in.StreamARN, DryRun: in.DryRun}, err
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
	return slowPutRecord(body)
}

func slowPutRecord(body []byte) (*putRecord, error) {
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
	return slowPutRecords(body)
}

func slowPutRecords(body []byte) (*putRecords, error) {
	var in struct {
		streamRefCBOR
		Records []putEntryCBOR
		DryRun  bool
	}
	err := decodeCBOR(body, &in)
	r := &putRecords{ref: in.ref(), entries: make([]putEntry, 0, min(maxPutRecords, len(in.Records))), dryRun: in.DryRun}
	for i := range in.Records {
		*r.another() = in.Records[i].entry()
	}
	return r, err
}

func fastPutRecords(body []byte) (*putRecords, bool) {
	r := &putRecords{}
	in := items{b: body}
	record := func() {
		p := r.another()
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
