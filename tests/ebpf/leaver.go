// The same in Go: stacks that grow, and move with all that is on them.
//
//	leaver locked | free
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

var returned atomic.Int64

//go:noinline
func grow(n int) byte {
	var room [512]byte
	if n > 0 {
		room[n] = grow(n - 1)
	}
	return room[n&7]
}

//go:noinline
func get(n int) byte {
	defer func() { _ = recover() }()
	if n%100 == 99 {
		panic("left")
	}
	if n%10 == 3 {
		runtime.Gosched()
	}
	return grow(n % 60)
}

func calls(n int) {
	for i := range n {
		get(i)
		returned.Add(1)
	}
}

// On a stack that is small again.
func carryOut(n int) {
	var group sync.WaitGroup
	parts := 4
	if os.Args[1] == "locked" {
		parts = 1
	}
	for range parts {
		group.Add(1)
		go func() {
			if parts == 1 {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
			}
			defer group.Done()
			calls(n / parts)
		}()
	}
	group.Wait()
}

func main() {
	input := bufio.NewScanner(os.Stdin)
	lines := make(chan string)
	go func() {
		for input.Scan() {
			lines <- strings.TrimSpace(input.Text())
		}
		close(lines)
	}()
	fmt.Println("ready")
	for line := range lines {
		before := returned.Load()
		if line == "go" {
			for waiting := true; waiting; {
				select {
				case <-lines:
					waiting = false
				default:
					carryOut(100)
				}
			}
		} else if n, err := strconv.Atoi(line); err == nil {
			carryOut(n)
		}
		fmt.Println(returned.Load() - before)
	}
}
