package actors

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A node is out of its cluster when it was in and is not, or when the cluster says so. One that was never in is not out.
func TestStanding(t *testing.T) {
	me, etcd, own, other := ClusterMember{"id", "a:1"}, ClusterMember{"name@id", "a:1"}, ClusterMember{"own", "a:1"}, ClusterMember{"other", "b:1"}
	before := ClusterMember{"before", "a:1"} // who had this node's address
	type look struct {
		t   Topology
		out bool
	}
	of := func(members ...ClusterMember) look { return look{t: Topology{Members: members}} }
	left := func(out bool, left ClusterMember, members ...ClusterMember) look {
		return look{Topology{Members: members, Left: []ClusterMember{left}}, out}
	}
	missing := func(members ...ClusterMember) look { return look{Topology{Members: members}, true} }
	for name, looks := range map[string][]look{
		"others come and go":                           {of(me), of(me, other), left(false, other, me)},
		"left":                                         {of(me, other), left(true, me, other)},
		"left, and nothing was seen of it":             {left(true, me, other)},
		"left, of a provider with a name":              {of(etcd, other), left(true, etcd, other)},
		"missing":                                      {of(other, me), missing(other)},
		"missing, with a name":                         {of(other, etcd), missing(other)},
		"missing, with an id of its own":               {of(other, own), missing(other)},
		"not in yet":                                   {of(other), of(), of(other), of(other, me)},
		"a client":                                     {of(other), left(false, other), of(other)},
		"all are gone":                                 {of(me), missing()},
		"blocked":                                      {of(me), {Topology{Members: []ClusterMember{me}, Blocked: []string{"x", "id"}}, true}},
		"blocked, with a name":                         {{Topology{Blocked: []string{"name@id"}}, true}},
		"another is blocked":                           {of(me), {Topology{Members: []ClusterMember{me}, Blocked: []string{"other"}}, false}},
		"who was here before leaves":                   {of(before, me), left(false, before, me)},
		"who was here before leaves later":             {of(before), of(before, me), of(me), missing(other)},
		"who was here before is still in":              {of(before, me), left(true, me, before)},
		"missing, and who was here before is still in": {of(before, me), missing(before)},
		"it left and came back":                        {of(me), missing(), of(me), of(me, other)},
	} {
		t.Run(name, func(t *testing.T) {
			s := standing{system: "id", address: "a:1"}
			for i, l := range looks {
				require.Equal(t, l.out, s.evicted(l.t), "look %d", i)
			}
		})
	}
}
