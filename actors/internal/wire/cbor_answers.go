package wire

// cbor finds the parts of a page in CBOR.
func (p *page) cbor(body []byte) bool {
	c := items{b: body}
	for members := c.begin(majorMap); c.more(&members); {
		name, skip := c.name()
		if skip {
			continue
		}
		one := fields(0)
		switch string(name) {
		case "Records":
			one = hasRecords
			for elements := c.begin(majorArray); c.more(&elements); {
				if r := p.another(); r != nil {
					r.cbor(&c)
				} else {
					return false
				}
			}
		case "NextShardIterator":
			one, p.iterator = hasIterator, c.text()
		case "MillisBehindLatest":
			one, p.behind = hasBehind, c.number()
		}
		if one == 0 || !p.has.once(one) { // ChildShards too, which come once in a shard's life
			return false
		}
	}
	return c.end()
}

func (r *record) cbor(c *items) {
	for members := c.begin(majorMap); c.more(&members); {
		name, skip := c.name()
		if skip {
			continue
		}
		one := fields(0)
		switch string(name) {
		case "SequenceNumber":
			one, r.seq = hasSeq, c.text()
		case "ApproximateArrivalTimestamp":
			one, r.millis = hasTime, c.time()
		case "Data":
			one = hasData
			r.data, r.base64 = c.blob()
		case "PartitionKey":
			one, r.key = hasKey, c.text()
		case "EncryptionType":
			one, r.cipher = hasCipher, c.text()
		}
		if one == 0 || !r.has.once(one) {
			c.strange = true
		}
	}
}

// cbor finds the parts of an answer in CBOR.
func (p *receipt) cbor(body []byte) bool {
	c := items{b: body}
	for members := c.begin(majorMap); c.more(&members); {
		name, skip := c.name()
		if skip {
			continue
		}
		one := fields(0)
		switch string(name) {
		case "Records":
			one = hasRecords
			for elements := c.begin(majorArray); c.more(&elements); {
				if r := p.another(); r != nil {
					r.cbor(&c)
				} else {
					return false
				}
			}
		case "FailedRecordCount":
			one, p.failed = hasFailed, c.number()
		case "EncryptionType":
			one, p.encrypt = hasEncrypt, c.text()
		}
		if one == 0 || !p.has.once(one) {
			return false
		}
	}
	return c.end()
}

func (r *result) cbor(c *items) {
	for members := c.begin(majorMap); c.more(&members); {
		name, skip := c.name()
		if skip {
			continue
		}
		if one, to := r.member(name); to == nil || !r.has.once(one) {
			c.strange = true
		} else {
			*to = c.text()
		}
	}
}
