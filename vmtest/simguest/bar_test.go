package simguest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/simguest"
)

func TestBar(t *testing.T) {
	for _, c := range []struct {
		host, write, kernel, release string
		q                      int
		want                   string
	}{
		{"med2", "1024", "6.1", "orphan", 1, "1927 519 5 0 352"},
		{"med2", "1024", "6.1", "napi", 1, "2160 463 20 172 343"},
		{"med2", "1024", "6.1", "orphan", 2, "1318 759 418 0 569"},
		{"med2", "1024", "6.1", "napi", 2, "1330 751 345 726 568"},
		{"med2", "1024", "6.12", "orphan", 1, "1829 547 2 0 341"},
		{"med2", "1024", "6.12", "napi", 1, "2129 470 5 135 327"},
		{"med2", "1024", "6.12", "orphan", 2, "1323 756 415 0 550"},
		{"med2", "1024", "6.12", "napi", 2, "1334 749 340 726 561"},
		{"fast", "1024", "6.12", "orphan", 1, "1024 976 317 0 598"},
		{"fast", "1024", "6.12", "napi", 2, "1071 934 761 938 586"},
		{"slow", "1024", "6.12", "orphan", 1, "4017 249 4 1 205"},
		{"slow", "1024", "6.12", "orphan", 2, "2261 443 9 1 253"},
		{"slow", "1024", "6.12", "napi", 1, "5695 176 6 98 128"},
		{"slow", "1024", "6.12", "napi", 2, "2954 339 30 249 240"},
		{"med", "16k", "6.12", "orphan", 1, "17883 56 4 0 56"},
		{"med", "16k", "6.12", "orphan", 2, "10612 94 51 0 95"},
	} {
		s := vmtest.Default()
		think := "2us"
		if c.write == "16k" {
			think = "6us"
		}
		for _, kv := range [][2]string{{"host", c.host}, {"kernel", c.kernel}, {"release", c.release}, {"queue_pairs", fmt.Sprint(c.q)}, {"write", c.write},
			{"think", think}, {"guest_cpu", "uml"}, {"vcpus", "1"}, {"duration", "10ms"}, {"warmup", "2ms"}, {"receiver.rmem", "32M"}, {"flow.0.queue", "0"}, {"flow.1.queue", fmt.Sprint(c.q - 1)}} {
			if err := s.Set(kv[0], kv[1]); err != nil {
				t.Fatal(err)
			}
		}
		out, err := simguest.New(simguest.Config{}).Run(context.Background(), s, vmtest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o := out.Totals
		fmt.Printf("%s %s %s %s %dq: %.2fG mean %.0f big %.2f pkts/MB %.0f kicks %.0f tx %.0f rx %.0f acks %.0f   want %s\n", c.host, c.write, c.kernel, c.release, c.q, o.GoodputBps/1e9, o.GSOMeanBytes, o.BigShare, o.PacketsPerMB, o.KicksPerMB, o.TxCallsPerMB, o.RxCallsPerMB, o.AcksPerMB, c.want)
	}
}
