// Package checks is what the Go programs share: their arguments and how they say what became of a check.
// Arguments: BOOTSTRAP PREFIX RECORDS light|full.
package checks

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Of the program, from its arguments.
var (
	Bootstrap = os.Args[1]
	Prefix    = os.Args[2]
	Records   = number(os.Args[3])
	Full      = os.Args[4] == "full"
)

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

// Skip is the error of a check that cannot be made here.
type Skip string

func (s Skip) Error() string { return string(s) }

// Check runs work and prints what became of it.
func Check(name string, work func() error) {
	err := work()
	var skip Skip
	switch {
	case err == nil:
		fmt.Println("ok", name)
	case errors.As(err, &skip):
		fmt.Printf("skip %s: %s\n", name, skip)
	default:
		fmt.Printf("FAIL %s: %s\n", name, strings.ReplaceAll(err.Error(), "\n", " "))
	}
}

// Done is said at the end.
func Done() { fmt.Println("done") }

var stdin = bufio.NewReader(os.Stdin)

// Restart has the broker stopped and started again.
func Restart() error {
	fmt.Println("restart")
	answer, err := stdin.ReadString('\n')
	if answer = strings.TrimSpace(answer); err != nil || strings.HasPrefix(answer, "failed") {
		return fmt.Errorf("restart: %s %w", answer, err)
	} else if answer != "restarted" {
		return Skip(answer)
	}
	return nil
}

// Want is an error in these words unless it is right.
func Want(right bool, format string, args ...any) error {
	if right {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// Until asks again until it holds, for 20 seconds at most.
func Until(what string, holds func() (bool, error)) error {
	end := time.Now().Add(20 * time.Second)
	for {
		if held, err := holds(); err != nil || held {
			return err
		}
		if time.Now().After(end) {
			return errors.New("never: " + what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
