package host

import (
	"testing"

	"github.com/vnetbench/vnetbench/guest/sim"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// Workers move to the thread of the first that shares, and back to their own. Who
// stays behind alone has to look at its ring before it sleeps, because nobody has
// asked for kicks on it while the thread was shared.
func TestWorkersMove(t *testing.T) {
	dev, err := netdev.New(netdev.Config{QueuePairs: 3, Policy: netdev.Policy{SharePairs: 3}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := modelByName("fast")
	if err != nil {
		t.Fatal(err)
	}
	loop := &sim.Loop{}
	var ks []*Worker
	for i := range 3 {
		ks = append(ks, NewWorker(loop, nil, &m, dev.Pair(i)))
	}
	for _, k := range ks {
		k.mates = ks
	}
	on := func(what string, homes ...int) {
		t.Helper()
		for i, home := range homes {
			if k := ks[i]; k.thread != ks[home].home || k.thread.workers[k.place] != k {
				t.Errorf("%s: worker %d is not at its place on the thread of worker %d", what, i, home)
			}
		}
	}
	on("at first", 0, 1, 2)
	ks[2].move(0)
	ks[1].move(0)
	on("sharing", 0, 0, 0)
	for _, k := range ks {
		k.turn = netdev.DirRX
	}
	for _, i := range []int{2, 1} {
		if err := dev.Pair(i).SetPolicy(netdev.Policy{}); err != nil {
			t.Fatal(err)
		}
		ks[i].move(0)
	}
	on("apart again", 0, 1, 2)
	for i, k := range ks {
		if k.turn != netdev.DirTX {
			t.Errorf("worker %d goes to sleep without having asked for kicks", i)
		}
	}
}
