// Tables as CSV files.

// cell returns a text as a cell. One that spreadsheets would take for a formula begins with an apostrophe.
const cell = (value: string | number): string => (typeof value === "number" ? String(value) : `"${value.replace(/^(?=[=+@\t\r-])/, "'").replaceAll('"', '""')}"`)

// offer gives a link the rows as a CSV file. It begins with a byte order mark, without which Excel does not read UTF-8.
export function offer(link: HTMLAnchorElement, rows: (string | number)[][]): void {
	link.href = URL.createObjectURL(new Blob(["\ufeff", ...rows.map((r) => r.map(cell).join(",") + "\r\n")], { type: "text/csv" }))
	setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}
