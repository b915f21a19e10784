package kinesistest

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"time"
)

// epoch is a timestamp on the wire, in milliseconds: a number of seconds with decimals in JSON, and
// tag 1 around a whole number of milliseconds in CBOR, which is what the AWS SDKs for Java exchange
// with Kinesis (the CBOR standard would have seconds there).
type epoch int64

var errTimestamp = errors.New("not a timestamp")

func (e epoch) time() time.Time { return millisTime(int64(e)) }

// MarshalJSON implements json.Marshaler.
func (e epoch) MarshalJSON() ([]byte, error) { return appendSeconds(nil, int64(e)), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (e *epoch) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.Abs(n) > 1e13 {
		return errTimestamp
	}
	*e = epoch(math.Round(n * 1000))
	return nil
}

// MarshalCBOR implements cbor.Marshaler.
func (e epoch) MarshalCBOR() ([]byte, error) {
	b := []byte{0xc1, 0x1b} // tag 1, unsigned integer of 8 bytes
	return binary.BigEndian.AppendUint64(b, uint64(max(e, 0))), nil
}

// UnmarshalCBOR implements cbor.Unmarshaler. It takes whole numbers as milliseconds and floating
// point as seconds, with or without the tag.
func (e *epoch) UnmarshalCBOR(b []byte) error {
	if len(b) > 0 && b[0] == 0xc1 {
		b = b[1:]
	}
	if len(b) == 1 && b[0] == 0xf6 { // null
		return nil
	}
	n, seconds, err := decodeCBORNumber(b)
	if err != nil {
		return err
	}
	if seconds {
		n *= 1000
	}
	if math.IsNaN(n) || math.Abs(n) > 1e16 {
		return errTimestamp
	}
	*e = epoch(math.Round(n))
	return nil
}
