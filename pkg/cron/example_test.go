package cron_test

import (
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/cron"
)

func ExampleSchedule_Next() {
	expr, err := cron.Parse("0 9 * * 1-5")
	if err != nil {
		panic(err)
	}
	zone, err := cron.LoadZone("Asia/Ho_Chi_Minh")
	if err != nil {
		panic(err)
	}
	s, err := cron.New(expr, zone, cron.Policy{})
	if err != nil {
		panic(err)
	}
	friday := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	fmt.Println(s.Next(friday).At)
	// Output: 2026-01-05 02:00:00 +0000 UTC
}

func ExampleParse() {
	_, err := cron.Parse("0 25 * * *")
	fmt.Println(err)
	_, err = cron.Parse("0 0 30 2 *")
	fmt.Println(err)
	// Output:
	// cron: hour "25": 25 is outside the limits 0-23
	// cron: "0 0 30 2 *": never fires: no month it names has a day it names
}

func ExampleSchedule_Warnings() {
	expr, _ := cron.Parse("* 0 * * *")
	s, _ := cron.New(expr, time.UTC, cron.Policy{})
	fmt.Println(s.Warnings(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))[0].Code)
	// Output: every_minute
}
