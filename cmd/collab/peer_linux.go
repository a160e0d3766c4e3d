package main

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// isOwnConnection reports whether no other user than this one and root has opened a connection from the
// address peer to this process's address own, both of IPv4. The kernel lists the connections with
// their users, but without those of connections that a program has closed, for which it returns false:
// nobody would read the response.
func isOwnConnection(peer, own string) bool {
	from, to := kernelAddress(peer), kernelAddress(own)
	found, _ := connections(from, to)
	if len(found) == 0 { // it is closed, or another machine's, such as the one that this one is a guest of
		reverse, all := connections(to, from)
		return all == 0 || len(reverse) > 0 && reverse[0].state == established
	}
	return !slices.ContainsFunc(found, func(c connection) bool {
		return c.inode == "0" || c.user != "0" && c.user != strconv.Itoa(os.Getuid())
	})
}

// established is the state of a connection that neither side has closed.
const established = "01"

// connection is a row of the kernel's list.
type connection struct{ state, user, inode string } // the inode is 0 if no program has the connection open

// connections returns those from an address to another, as the kernel's list has them, and how many
// that has in all: none where it cannot be read.
func connections(from, to string) (found []connection, all int) {
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} { // a socket of IPv6 can have addresses of IPv4
		table, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(table)) {
			row := strings.Fields(line)
			if len(row) < 10 || !strings.Contains(row[1], ":") { // the heading
				continue
			}
			all++
			if strings.HasSuffix(row[1], from) && strings.HasSuffix(row[2], to) {
				found = append(found, connection{row[3], row[7], row[9]})
			}
		}
	}
	return found, all
}

// kernelAddress returns an address of IPv4 with its port as the kernel's list has it.
func kernelAddress(address string) string {
	a, err := netip.ParseAddrPort(address)
	if err != nil || !a.Addr().Unmap().Is4() {
		return "?"
	}
	ip := a.Addr().Unmap().As4()
	slices.Reverse(ip[:])
	return fmt.Sprintf("%X:%04X", ip[:], a.Port())
}
