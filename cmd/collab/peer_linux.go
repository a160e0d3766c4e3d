package main

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ofThisUser reports whether no other user than this one and root has opened a connection from the
// address peer to this process's address own, both of IPv4. The kernel lists the connections with
// their users.
func ofThisUser(peer, own string) bool {
	from, to := kernelAddress(peer), kernelAddress(own)
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} { // a socket of IPv6 can have addresses of IPv4
		table, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(table)) {
			row := strings.Fields(line)
			if len(row) > 7 && strings.HasSuffix(row[1], from) && strings.HasSuffix(row[2], to) && row[7] != "0" && row[7] != strconv.Itoa(os.Getuid()) {
				return false
			}
		}
	}
	return true
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
