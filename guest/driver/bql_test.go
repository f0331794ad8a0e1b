package driver

import (
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// fill queues packets of n bytes until the limit is passed.
func (b *bql) fill(n int64) (packets int) {
	for !b.full() {
		b.queued(n)
		packets++
	}
	return packets
}

func TestByteLimitGrowsWhileTheDeviceRunsDry(t *testing.T) {
	var b bql
	b.init()
	var got []int
	for range 6 {
		k := b.fill(1000)
		got = append(got, k)
		b.completed(0, int64(k)*1000)
	}
	for i := 1; i < len(got); i++ {
		if got[i] <= got[i-1] {
			t.Fatalf("packets until the limit, a dry device each time: %v", got)
		}
	}
	if got[0] != 1 {
		t.Fatalf("the first packet did not reach the limit: %v", got)
	}
}

func TestByteLimitStaysWhenTheDeviceIsBusy(t *testing.T) {
	b := bql{limit: 5000, ceiling: 5000}
	b.init()
	b.fill(1000)
	for i := range 20 { // one of six done, one queued: never dry, no slack for long
		b.completed(vtime.Time(i), 1000)
		b.queued(1000)
	}
	if b.limit != 5000 || !b.full() {
		t.Fatalf("limit went from 5000 to %d, room %d", b.limit, b.room())
	}
}

func TestByteLimitGoesDownAfterASecondOfSlack(t *testing.T) {
	b := bql{limit: 100000}
	b.init()
	b.ceiling = 100000
	now := vtime.Time(0)
	for range 4 {
		b.queued(1000)
	}
	for range 300 { // 4000 bytes queued, a quarter done at a time
		now = now.Add(10 * time.Millisecond)
		b.completed(now, 1000)
		b.queued(1000)
	}
	if b.limit >= 100000 || b.limit < 2000 {
		t.Fatalf("limit %d after 3 s in which 2000 bytes would have done", b.limit)
	}
	if b.room() < 0 && b.limit > 4000 {
		t.Fatalf("room %d below a limit of %d", b.room(), b.limit)
	}
}
