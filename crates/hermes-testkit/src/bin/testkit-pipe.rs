//! Writes every line of stdin back to stdout: the baseline against which servers are measured.

use std::io::{self, BufRead, Write};

fn main() -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut output = io::stdout().lock();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        output.write_all(&line)?;
        output.flush()?;
        line.clear();
    }
    Ok(())
}
