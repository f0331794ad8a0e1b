package simguest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/simguest"
)

func TestQuick(t *testing.T) {
	p, _ := vmtest.PlanByName("mq-small-packets")
	runs, err := p.Runs()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		t0 := time.Now()
		out, err := simguest.New(simguest.Config{}).Run(context.Background(), r.Scenario, vmtest.Options{})
		if err != nil {
			t.Fatal(r.Label, err)
		}
		o := out.Totals
		fmt.Printf("%-50s %6.2fG mean %7.0f big %.2f pkts/MB %6.0f acks %5.0f kicks %6.1f tx %6.1f rx %6.1f guest %.0f host %.0f %v %s\n", r.Label, o.GoodputBps/1e9, o.GSOMeanBytes, o.BigShare, o.PacketsPerMB, o.AcksPerMB, o.KicksPerMB, o.TxCallsPerMB, o.RxCallsPerMB, *o.GuestNsPerMB, *o.HostNsPerMB, time.Since(t0).Round(time.Millisecond), *out.TraceHash)
	}
}
