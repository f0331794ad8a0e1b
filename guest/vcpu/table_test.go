package vcpu_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/vmtest"
)

func TestEveryCostSaysWhereItComesFrom(t *testing.T) {
	for _, name := range vmtest.GuestTables() {
		tab, err := vmtest.GuestTable(name)
		if err != nil {
			t.Fatal(err)
		}
		if tab.Name() != name || tab.About() == "" {
			t.Errorf("table %q is called %q: %q", name, tab.Name(), tab.About())
		}
		for i, e := range tab.Entries() {
			op := vcpu.Op(i)
			if e.Name != op.String() || e.Picos != tab.Picos(op) || e.Picos < 0 {
				t.Errorf("%s: entry %d is %+v", name, i, e)
			}
			if len(e.Note) < 12 {
				t.Errorf("%s, %s: note %q says too little", name, e.Name, e.Note)
			}
			if e.Source == vcpu.Measured && !strings.Contains(e.Note, "202") {
				t.Errorf("%s, %s: measured, but the note has no date", name, e.Name)
			}
		}
	}
}

func TestUnknownTableNamesThoseThereAre(t *testing.T) {
	_, err := vmtest.GuestTable("xen")
	if !errors.Is(err, vmtest.ErrUnknownCosts) || !strings.Contains(err.Error(), "kvm-2013") {
		t.Fatal(err)
	}
}

// table returns a built-in table.
func table(t testing.TB, name string) *vcpu.Table {
	tab, err := vmtest.GuestTable(name)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestFreeIsFree(t *testing.T) {
	free := table(t, "free")
	for op := range vcpu.NumOps {
		if want := int64(0); op != vcpu.OpTxLock && free.Picos(op) != want {
			t.Errorf("%v costs %d ps", op, free.Picos(op))
		}
	}
	if ops := free.Assumed(); len(ops) != 0 {
		t.Errorf("assumed costs of a free guest: %v", ops)
	}
}

// TestPairOfPacketAndACK holds the split of the published price of a TSO packet
// and its ACK to the published sum.
func TestPairOfPacketAndACK(t *testing.T) {
	kvm := table(t, "kvm")
	var sum time.Duration
	for _, op := range []vcpu.Op{vcpu.OpTCPXmit, vcpu.OpQdisc, vcpu.OpDriverXmit, vcpu.OpTxFree, vcpu.OpRxFrame, vcpu.OpTCPAck} {
		sum += kvm.Cost(op, 1)
	}
	const taskClock, acks = (65945.29 - 48982.58) * 1e6, 15648792 - 1434706
	if published := taskClock / acks; float64(sum) < published-1 || float64(sum) > published+1 {
		t.Fatalf("a packet and its ACK cost %v, the publication says %.0f ns", sum, published)
	}
}

func TestScaled(t *testing.T) {
	kvm := table(t, "kvm")
	half := kvm.Scaled(vcpu.OpWake, 1, 2)
	if got, want := half.Picos(vcpu.OpWake), kvm.Picos(vcpu.OpWake)/2; got != want {
		t.Errorf("half of wake is %d ps, want %d", got, want)
	}
	if half.Picos(vcpu.OpKick) != kvm.Picos(vcpu.OpKick) {
		t.Error("another cost changed")
	}
	if half.Name() != "kvm, wake x1/2" {
		t.Errorf("name %q", half.Name())
	}
	for _, op := range kvm.Assumed() {
		if e := kvm.Entries()[op]; e.Source != vcpu.Assumed || e.Picos == 0 {
			t.Errorf("%v is not an assumed cost: %+v", op, e)
		}
	}
	if len(kvm.Assumed()) == 0 {
		t.Error("kvm has no assumed cost: nothing to vary")
	}
}

func TestOpNames(t *testing.T) {
	for op := range vcpu.NumOps {
		if got, ok := vcpu.OpByName(op.String()); !ok || got != op {
			t.Errorf("%v is found as %v, %v", op, got, ok)
		}
	}
	if _, ok := vcpu.OpByName("frobnicate"); ok || vcpu.NumOps.String() != "unknown" {
		t.Error("an operation that is none has a name")
	}
}

// BenchmarkCopyByte is the cost of copying a 1024-byte write into the pages of
// the write queue: the source of the entry copy_byte of table kvm, in ns per
// 1024 bytes.
func BenchmarkCopyByte(b *testing.B) {
	const write, page, pages = 1024, 32 << 10, 64
	src, ring := make([]byte, write), make([]byte, pages*page)
	b.SetBytes(write)
	off := 0
	for b.Loop() {
		copy(ring[off:off+write], src)
		off = (off + write) % len(ring)
	}
}
