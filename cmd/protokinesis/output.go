package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/protokinesis/protokinesis/messages"
)

// Forms of output.
const (
	formatText = "text"
	formatJSON = "json"
	formatRaw  = "raw"
)

// printer writes records to an output that the lanes of all shards share.
type printer struct {
	mu     sync.Mutex
	to     io.Writer
	format string
}

// print writes the records in one piece. That it can't ends the consumer.
func (p *printer) print(_ context.Context, records []*messages.Delivery, _ int) error {
	var b bytes.Buffer
	for _, d := range records {
		switch p.format {
		case formatJSON:
			if err := writeJSON(&b, d); err != nil {
				return &fatalError{err}
			}
		case formatRaw:
			b.Write(d.GetData())
			b.WriteByte('\n')
		default:
			writeText(&b, d)
		}
	}
	return p.write(b.Bytes())
}

// write writes bytes in one piece.
func (p *printer) write(data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.to.Write(data); err != nil {
		return &fatalError{err}
	}
	return nil
}

// jsonRecord is a record as a line of JSON.
type jsonRecord struct {
	Stream       string            `json:"stream"`
	Shard        string            `json:"shard"`
	Sequence     string            `json:"sequence"`
	SubSequence  uint64            `json:"sub_sequence"`
	PartitionKey string            `json:"partition_key"`
	Arrival      string            `json:"arrival"`
	Attempt      int               `json:"attempt"`
	Headers      map[string]string `json:"headers"`
	Data         string            `json:"data"`
	Encoding     string            `json:"encoding"`
}

const arrivalLayout = "2006-01-02T15:04:05.000Z07:00"

func arrival(d *messages.Delivery) string { return d.Arrival().UTC().Format(arrivalLayout) }

func writeJSON(b *bytes.Buffer, d *messages.Delivery) error {
	r := jsonRecord{
		Stream: d.GetStream(), Shard: d.GetShardId(), Sequence: d.GetSequenceNumber(), SubSequence: d.GetSubSequenceNumber(),
		PartitionKey: d.GetPartitionKey(), Arrival: arrival(d), Attempt: int(d.GetAttempt()), Headers: d.GetHeaders(),
		Data: string(d.GetData()), Encoding: "utf8",
	}
	if r.Headers == nil {
		r.Headers = map[string]string{}
	}
	if !utf8.Valid(d.GetData()) {
		r.Data, r.Encoding = base64.StdEncoding.EncodeToString(d.GetData()), "base64"
	}
	return encodeJSON(b, r)
}

// encodeJSON writes a value and a newline, with < and & as they are.
func encodeJSON(to io.Writer, value any) error {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// writeText writes: arrival, shard, sequence number, key, data. Key and data are quoted when a line could not show them.
func writeText(b *bytes.Buffer, d *messages.Delivery) {
	b.WriteString(arrival(d))
	b.WriteByte(' ')
	b.WriteString(d.GetShardId())
	b.WriteByte(' ')
	b.WriteString(d.GetSequenceNumber())
	if sub := d.GetSubSequenceNumber(); sub > 0 {
		b.WriteByte(':')
		b.WriteString(strconv.FormatUint(sub, 10))
	}
	b.WriteByte(' ')
	key := printable(d.GetPartitionKey())
	if key == "" || strings.ContainsRune(key, ' ') && key[0] != '"' {
		key = strconv.Quote(d.GetPartitionKey())
	}
	b.WriteString(key)
	b.WriteByte(' ')
	b.WriteString(printable(string(d.GetData())))
	b.WriteByte('\n')
}

// printable is the text itself if a terminal shows it as one line, else a quoted form.
func printable(s string) string {
	if !utf8.ValidString(s) || strings.HasPrefix(s, `"`) && !json.Valid([]byte(s)) {
		return strconv.Quote(s)
	}
	for _, r := range s {
		if r != '\t' && !unicode.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

// seconds is a duration as a number, to the millisecond.
func seconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}
