package kinesistest

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/maphash"
	"time"
)

// pageToken is what a NextToken stands for. Like iterators, tokens carry all there is to know.
type pageToken struct {
	Issued int64  // ms
	Stream uint64 `json:",omitempty"`
	After  string // name or id of the last item of the page before
	Filter *shardFilter
}

func (s *Service) writeToken(t pageToken) string {
	text, err := json.Marshal(t)
	if err != nil {
		return "" // plain fields always encode
	}
	text = binary.BigEndian.AppendUint64(text, maphash.Bytes(s.seed, text))
	return base64.StdEncoding.EncodeToString(text)
}

func (s *Service) readToken(token string, now time.Time, into *pageToken) *apiError {
	bad := invalidArgument("NextToken %s is invalid.", token)
	text, err := base64.StdEncoding.DecodeString(token)
	if err != nil || len(text) < 8 {
		return bad
	}
	body, sum := text[:len(text)-8], binary.BigEndian.Uint64(text[len(text)-8:])
	if sum != maphash.Bytes(s.seed, body) || json.Unmarshal(body, into) != nil {
		return bad
	}
	if now.Sub(millisTime(into.Issued)) > tokenLife {
		return failf(codeExpiredNextToken, "NextToken expired; it was issued at %s.", millisTime(into.Issued))
	}
	return nil
}
