package kinesistest

// The hot operations read and write JSON by hand; these are their structs for CBOR.

type getRecordsCBOR struct {
	ShardIterator string
	Limit         *int64
	StreamARN     string
	DryRun        bool
}

func parseGetRecordsCBOR(body []byte) (request, error) {
	var in getRecordsCBOR
	err := decodeCBOR(body, &in)
	return &getRecords{ShardIterator: []byte(in.ShardIterator), Limit: in.Limit, StreamARN: in.StreamARN, DryRun: in.DryRun}, err
}

type putEntryCBOR struct {
	Data            []byte
	PartitionKey    *string
	ExplicitHashKey string
}

func (in *putEntryCBOR) entry() putEntry {
	key := ""
	if in.PartitionKey != nil {
		key = *in.PartitionKey
	}
	p := newPutEntry(key, in.ExplicitHashKey, in.Data)
	if in.PartitionKey == nil {
		p.key = nil
	}
	return p
}

func parsePutRecordCBOR(body []byte) (request, error) {
	var in struct {
		streamRefCBOR
		putEntryCBOR
		SequenceNumberForOrdering string
		DryRun                    bool
	}
	err := decodeCBOR(body, &in)
	r := &putRecord{ref: in.ref(), entry: in.entry(), dryRun: in.DryRun}
	if in.SequenceNumberForOrdering != "" {
		r.ordering = []byte(in.SequenceNumberForOrdering)
	}
	return r, err
}

// streamRefCBOR is streamRef with exported fields only, for embedding in anonymous structs.
type streamRefCBOR struct{ StreamName, StreamARN string }

func (r streamRefCBOR) ref() streamRef { return streamRef(r) }

func parsePutRecordsCBOR(body []byte) (request, error) {
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

func (a *pageAnswer) cbor(c *codec) ([][]byte, error) {
	records, err := a.decode()
	if err != nil {
		return nil, err
	}
	b, err := c.encode(&struct {
		Records            []storedRecord
		MillisBehindLatest int64
		NextShardIterator  string       `json:",omitempty"`
		ChildShards        []childShard `json:",omitempty"`
	}{records, a.behind, string(a.iterator), a.children})
	return [][]byte{b}, err
}

type putResultCBOR struct {
	SequenceNumber string `json:",omitempty"`
	ShardId        string `json:",omitempty"`
	ErrorCode      string `json:",omitempty"`
	ErrorMessage   string `json:",omitempty"`
}

func (a *putRecordsAnswer) cbor(c *codec) ([][]byte, error) {
	results := make([]putResultCBOR, len(a.results))
	for i := range a.results {
		r := &a.results[i]
		if r.fail != nil {
			results[i] = putResultCBOR{ErrorCode: r.fail.code, ErrorMessage: r.fail.message}
			continue
		}
		results[i] = putResultCBOR{SequenceNumber: string(r.seq[:]), ShardId: r.shard.id}
	}
	b, err := c.encode(&struct {
		FailedRecordCount int
		Records           []putResultCBOR
	}{a.failed, results})
	return [][]byte{b}, err
}

func (a *pageAnswer) eventCBOR(c *codec) ([][]byte, error) {
	records, err := a.decode()
	if err != nil {
		return nil, err
	}
	b, err := c.encode(&struct {
		Records                    []storedRecord
		MillisBehindLatest         int64
		ContinuationSequenceNumber string       `json:",omitempty"`
		ChildShards                []childShard `json:",omitempty"`
	}{records, a.behind, string(a.iterator), a.children})
	return [][]byte{b}, err
}
